"""The published escapes from engines like this one since 2016, by their numbers, and what became of each here.

One declaration, in a file for each few years: `tests/README.md` shows this table, and `test_published` sees to it that
both are the same and that each test is there. What belongs here are flaws of runc, crun, containerd, moby, BuildKit,
Podman, Buildah and their libraries, of CRI-O, LXC and others where the same trick applies to any engine, and of the
kernel only where engines had to close the way to it. Most of those of clients, of Docker Desktop and of Kubernetes
itself are left out, and numbers of which the record at hand said nothing more.
"""

from tests.sandbox.published import of_2016_to_2019, of_2020_to_2021, of_2022_to_2023, of_2024, since_2025
from tests.sandbox.published.row import Row

PUBLISHED: tuple[Row, ...] = (
    *of_2016_to_2019.ROWS,
    *of_2020_to_2021.ROWS,
    *of_2022_to_2023.ROWS,
    *of_2024.ROWS,
    *since_2025.ROWS,
)
"""Sorted by year, and in a year by number; a GHSA stands at the end of the year in which it was published."""


def table() -> str:
    """The table in Markdown, for tests/README.md: `python3 -m tests.sandbox.published` prints it."""
    rows = (f"| {row.number} | {row.component} | {row.flaw} | {row.verdict} |" for row in PUBLISHED)
    return "\n".join(("| number | of | the flaw | here |", "|---|---|---|---|", *rows)) + "\n"
