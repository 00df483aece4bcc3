"""Calls of another OCI runtime's program."""

from pathlib import Path

import pytest

from engine.birth.ociprogram import Program
from engine.errors import SystemFailure
from engine.sandbox import command

# It makes the directories above its log, as runsc does, and then fails.
RUNTIME = """#!/bin/sh
while [ "$1" != --log ]; do shift; done
mkdir -p "$(dirname "$2")"
echo '{"level": "error", "msg": "said"}' > "$2"
exit 3
"""


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """A program of this runtime, and the bundle of a container."""
    path = tmp_path / "odd"
    path.write_text(RUNTIME)
    path.chmod(0o700)
    (tmp_path / "bundle").mkdir()
    return Program((str(tmp_path / "bundle"), str(path)), "log")


def test_what_it_says_is_read_from_its_log(program: Program) -> None:
    with pytest.raises(SystemFailure, match="odd: said"):
        program.must(program.call("create"))


def test_it_does_not_make_the_bundle_of_a_container_again_that_has_ended(program: Program) -> None:
    Path(program.bundle).rmdir()
    assert program.call("exec") == command.NOT_FOUND
    assert not Path(program.bundle).exists()
