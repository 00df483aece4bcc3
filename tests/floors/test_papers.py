"""What the papers promise of themselves: README.md is one page, and no paper names a file that is not there."""

import re
from pathlib import Path

import pytest

from bench import results, table
from tests.floors.sources import PROJECT

PAPERS = ("README.md", "engine/README.md", "tests/README.md", "bench/README.md")
LARGEST = 9 * 1024
LINK = re.compile(r"\]\(([^)#:]+)(?:#([^)]+))?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def read(paper: str) -> str:
    """The text of a paper."""
    return (PROJECT / paper).read_text()


def anchors(paper: Path) -> set[str]:
    """What a link into the paper may name: its headings as GitHub writes them."""
    headings = (re.sub(r"[^\w\- ]", "", each.lower()) for each in HEADING.findall(paper.read_text()))
    return {heading.replace(" ", "-") for heading in headings}


def test_the_readme_is_one_page() -> None:
    """What a newcomer needs, and where to read on."""
    assert len(read("README.md").encode()) <= LARGEST


@pytest.mark.parametrize("paper", PAPERS)
def test_a_link_leads_somewhere(paper: str) -> None:
    """To a file, and to a heading of it."""
    for target, anchor in LINK.findall(read(paper)):
        place = (PROJECT / paper).parent / target
        assert place.exists(), target
        assert not anchor or anchor in anchors(place), f"{target}#{anchor}"


@pytest.mark.parametrize("paper", PAPERS)
def test_a_file_that_is_named_is_there(paper: str) -> None:
    """`tests/x.py`, `daemon/x.py`: below the project or below its engine."""
    for name in re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.[a-z]+)`", read(paper)):
        assert any((PROJECT / below / name).exists() for below in ("", "engine", "tests")), name


def test_the_measured_table_is_that_of_the_last_run() -> None:
    """bench/README.md shows what bench/results holds."""
    run = results.read(PROJECT / "bench" / "results" / "table.json")
    assert table.markdown(run).strip() in read("bench/README.md")
