"""The table of published escapes: each row has its test, and tests/README.md shows the same."""

import ast
import functools
import re
from pathlib import Path

import pytest

from tests.sandbox.published import PUBLISHED, Row, table

TESTS = Path(__file__).resolve().parents[1]
CVE = re.compile(r"CVE-(20(?:1[6-9]|2\d))-(\d{4,7})")
GHSA = re.compile(r"GHSA(-[23456789cfghjmpqrvwx]{4}){3}")


@functools.cache
def functions(path: Path) -> dict[str, str]:
    """The tests of a file, each with what stands above its name."""
    found = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            found[node.name] = " ".join(ast.unparse(decorator) for decorator in node.decorator_list)
    return found


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: row.number)
def test_each_row_has_its_test_or_its_reason(row: Row) -> None:
    """And the test is one that is run."""
    assert CVE.fullmatch(row.number) or GHSA.fullmatch(row.number)
    assert bool(row.test) != bool(row.why) and row.flaw.endswith(".") and "|" not in row.flaw + row.verdict
    if row.test:
        path, name = row.test.split("::")
        assert name in functions(TESTS / path)
        assert not re.search("skip|xfail", functions(TESTS / path)[name])


def test_the_rows_are_many_and_each_is_there_once_in_its_order() -> None:
    """By year and number."""
    numbers = [row.number for row in PUBLISHED]
    assert len(numbers) == len(set(numbers)) >= 60
    cves = [tuple(map(int, match.groups())) for match in map(CVE.fullmatch, numbers) if match]
    assert cves == sorted(cves)


def test_the_paper_shows_these_rows() -> None:
    """`python3 -m tests.sandbox.published` prints what is to stand there."""
    assert table() in (TESTS / "README.md").read_text()


def test_every_number_that_a_test_here_is_named_after_has_its_row() -> None:
    """No test repeats a flaw that the table does not know."""
    known = {row.number for row in PUBLISHED}
    for path in (TESTS / "sandbox").glob("test_*.py"):
        for name in functions(path):
            for year, number in re.findall(r"cve_(20\d\d)_(\d{4,7})", name):
                assert f"CVE-{year}-{number}" in known, name
