"""The table of real failures names tests that exist, and none of its kinds goes without one."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs/failures.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", TEXT)))


@cache
def functions_of(path: str) -> frozenset[str]:
    """Return the names of a file's test functions, without importing it."""
    tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
    return frozenset(
        node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )


def rows(heading: str) -> dict[int, str]:
    """Return the rows of the table under a heading, by their number."""
    section = TEXT.split(f"## {heading}\n")[1].split("\n## ")[0]
    return {
        int(number): row for number, row in re.findall(r"^\| (\d+) \|(.*)\|$", section, flags=re.MULTILINE)
    }


@pytest.mark.parametrize(("path", "name"), NAMED, ids=lambda part: part.rpartition("/")[2])
def test_every_named_test_exists(path: str, name: str) -> None:
    assert name in functions_of(path)


@pytest.mark.parametrize(("heading", "kinds"), [("Replies", 20), ("Endpoints", 10), ("Texts of users", 8)])
def test_every_kind_has_a_test(heading: str, kinds: int) -> None:
    found = rows(heading)
    assert list(found) == list(range(1, kinds + 1))
    assert [number for number, row in found.items() if ".py::test_" not in row] == []


def test_every_reference_is_of_the_form_that_is_checked() -> None:
    assert TEXT.count("::") == len(re.findall(r"`[\w/]+\.py::\w+`", TEXT))
