"""The code of a module is the same each time, runs as Python's own would, and knows its lines."""

import marshal
import subprocess
import sys
import traceback
from pathlib import Path
from types import CodeType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.bundle import bytecode

pytestmark = pytest.mark.seldom

ENGINE = Path(__file__).resolve().parents[3] / "engine"
# Made in a process of its own, with other addresses and another order of sets.
OTHER = """import sys, hashlib, pathlib
from engine.bundle import bytecode
print(hashlib.sha256(b"".join(bytecode.made(pathlib.Path(p).read_bytes()) for p in sys.argv[1:])).hexdigest())"""


def every(code: CodeType) -> list[CodeType]:
    """A code and all codes in it."""
    return [code, *(one for each in code.co_consts if isinstance(each, CodeType) for one in every(each))]


def test_each_instruction_keeps_its_line() -> None:
    for path in sorted(ENGINE.rglob("*.py"))[::5]:
        source = path.read_bytes()
        ours = every(marshal.loads(bytecode.made(source)))
        theirs = every(compile(bytecode.untyped(source), "", "exec"))
        assert len(ours) == len(theirs)
        for mine, other in zip(ours, theirs, strict=True):
            assert mine.co_code == other.co_code
            for at in range(0, len(mine.co_code), 2):
                assert line_at(mine, at) == line_at(other, at), (path, mine.co_name, at)


def line_at(code: CodeType, at: int) -> int | None:
    """The line of the instruction at an offset."""
    return next(line for start, end, line in code.co_lines() if start <= at < end)


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=12))
def test_a_failure_shows_the_line_however_far_apart_lines_are(gaps: list[int]) -> None:
    source = "x = 1\n" + "".join("\n" * gap + "x += 1\n" for gap in gaps) + "x / 0\n"
    try:
        exec(marshal.loads(bytecode.made(source.encode())))
    except ZeroDivisionError as error:
        assert traceback.extract_tb(error.__traceback__)[-1].lineno == source.count("\n")


def test_two_processes_make_the_same_bytes() -> None:
    paths = sorted(map(str, ENGINE.rglob("*.py")))[::20]

    def made(seed: str) -> str:
        command = [sys.executable, "-c", OTHER, *paths]
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ENGINE.parent)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert made("1") == made("2")
