"""Imports point one way: metric <- judges <- engine <- insight <- api <- cli <- jobs."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAYERS = ("metric", "judges", "engine", "insight", "api", "cli", "jobs")
GROUND = ("errors", "data")  # belong to no layer: they import nothing of prspark
WITHOUT_SPARK = ("metric", "judges", *GROUND)
ENTRIES = ("__init__", "__main__")  # the package's own front doors


def files() -> list[Path]:
    return sorted([*(ROOT / "prspark").rglob("*.py"), *(ROOT / "jobs").glob("*.py")])


def layer_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return "jobs" if parts[0] == "jobs" else parts[1]


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, also inside functions and for types."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def layers_used(path: Path) -> set[str]:
    own = (name.split(".")[1] for name in imports(path) if name.startswith("prspark."))
    return {layer for layer in own if not layer.startswith("__")}


def fresh(code: str) -> str:
    """What this code prints in a new interpreter."""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_file_imports_its_own_layer_and_those_before_it_only(path: Path) -> None:
    layer = layer_of(path)
    if layer in ENTRIES:
        return
    allowed = set() if layer in GROUND else {*GROUND, *LAYERS[: LAYERS.index(layer) + 1]}
    assert layers_used(path) <= allowed


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_metric_and_judges_never_import_pyspark(path: Path) -> None:
    if layer_of(path) in WITHOUT_SPARK:
        assert not [name for name in imports(path) if name.split(".")[0] in ("pyspark", "py4j")]


def test_every_file_belongs_to_a_layer() -> None:
    assert {layer_of(path) for path in files()} <= {*LAYERS, *GROUND, *ENTRIES}


def test_layers_are_all_there_so_that_nothing_passes_unseen() -> None:
    assert {*LAYERS, "errors"} <= {layer_of(path) for path in files()}
    [engine] = [path for path in files() if path.name == "judging.py"]
    assert {"judges", "metric"} <= layers_used(engine)


@pytest.mark.parametrize(
    "module", ["prspark", "prspark.engine.judging", "prspark.engine.calibrating", "prspark.judges.factory"]
)
def test_worker_code_is_imported_without_pyspark(module: str) -> None:
    loaded = (
        f"import sys, {module}; print([m for m in sys.modules if m.split('.')[0] in ('pyspark', 'py4j')])"
    )
    assert fresh(loaded) == "[]"


def test_public_names_are_all_there() -> None:
    code = "import prspark; print(all(getattr(prspark, name) is not None for name in prspark.__all__))"
    assert fresh(code) == "True"
