"""Dockerfiles made to take the time or the memory of whoever checks them."""

import time

import pytest

from engine.daemon.buildkit.lint import checkoptions, lintrules
from tests.unit.buildkit.lint.test_lintrules import reviewed

pytestmark = pytest.mark.seldom

SECONDS = 20  # each of them took minutes, or all of the memory, without its bound; with it a second or two
NAME = "v" * 40


def numbered(line: str, count: int = 4900) -> str:
    """So many lines, each with its number."""
    return "".join(line.format(number) + "\n" for number in range(count))


FILES = {
    "values that double": "FROM scratch\nENV a=" + "x" * 60_000 + "\n" + "ENV a=$a$a\n" * 9000,
    "values that are used often": "FROM scratch\nENV a=" + "x" * 60_000 + "\n" + "LABEL b=$a$a$a$a$a\n" * 9000,
    "stages that inherit many variables": "FROM scratch AS s0\n"
    + "".join(f"FROM s{number} AS s{number + 1}\nENV v{number}=1\n" for number in range(4900)),
    "variables that nearly are others": "FROM scratch\n"
    + numbered(f"ENV {NAME}{{0:06}}=1")
    + numbered(f"COPY ${NAME}{{0:06}}x ."),
    "arguments that nearly are others": numbered(f"ARG {NAME}{{0:06}}=1") + numbered(f"FROM scratch${NAME}{{0:06}}x"),
    "names like those of secrets": "FROM scratch\n"
    + ("ENV " + "key_" * 15_000 + "=1\n") * 8
    + ("ENV " + "_" * 60_000 + "=1\n") * 8,
    "many options": "FROM scratch\n" + ("# check=skip=" + "a," * 30_000 + "\nMAINTAINER a\n") * 15,
    "many comments": "# a\n" * 200_000 + "FROM scratch\n",
    "many ports": "FROM scratch\n" + ("EXPOSE " + "1:1 " * 9000 + "\n") * 20,
    "many variables of one line": "FROM scratch\n" + ("COPY " + "$a" * 30_000 + " .\n") * 16,
}


@pytest.mark.parametrize("name", FILES)
def test_a_hostile_file_is_checked_soon(name: str) -> None:
    begun = time.process_time()
    seen = reviewed(FILES[name][: 2**20], ignore="a*\n**/b?c*d")
    assert seen.dockerfile is not None
    found = lintrules.warnings(seen, checkoptions.CheckOptions())
    assert len(found) <= 1000
    assert time.process_time() - begun < SECONDS


def test_values_that_are_too_long_in_all_are_a_fault() -> None:
    seen = reviewed(FILES["values that are used often"])
    assert seen.fault is not None
    assert "too long in all" in seen.fault.reason
