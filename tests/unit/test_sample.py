"""The sample that ships in the package is there, whole, and readable from a zip too."""

import json
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import prspark.data
from prspark.data import sample_path

PACKAGE = Path(prspark.data.__file__).parent.parent


def rows():
    return [json.loads(line) for line in sample_path().read_text(encoding="utf-8").splitlines()]


def test_sample_is_125_rows_in_25_groups_of_5():
    groups = Counter((row["metadata"]["original_query"], row["metadata"]["model"]) for row in rows())
    assert len(groups) == 25
    assert set(groups.values()) == {5}
    assert len({row["input_id"] for row in rows()}) == 125


def test_each_group_has_a_baseline_and_each_row_a_reference_and_a_human_label():
    baselines = [row for row in rows() if row["prompt"] == row["metadata"]["original_query"]]
    assert len(baselines) == 25
    assert all(
        row["reference_answer"] and isinstance(row["metadata"]["human_correct"], bool) for row in rows()
    )


def test_licence_ships_with_the_sample():
    licence = sample_path().with_name("sample.LICENSE").read_text(encoding="utf-8")
    assert licence.startswith("MIT License")
    assert "Deep Cognition and Language Research (DeCLaRe) Lab" in licence


def test_sample_of_an_installed_package_is_the_file_itself():
    assert sample_path() == PACKAGE / "data" / "sample.jsonl"


def test_sample_is_readable_when_the_package_is_imported_from_a_zip(tmp_path):
    archive = tmp_path / "prspark.zip"
    with zipfile.ZipFile(archive, "w") as target:
        target.writestr("prspark/__init__.py", "")
        for file in (PACKAGE / "data").iterdir():
            if file.is_file():
                target.write(file, f"prspark/data/{file.name}")
    code = (
        "import prspark.data as d; p = d.sample_path(); assert p == d.sample_path(); "
        "print(d.__file__); print(p); print(len(p.read_text(encoding='utf-8').splitlines()))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(archive), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    module, copy, lines = run.stdout.split()
    assert module.startswith(str(archive))
    assert lines == "125"
    assert not Path(copy).exists(), "the copy goes with the process"
