"""What a command line client says: its output, and the rows and options of its help."""

import re
import subprocess

ROW = re.compile(r"^  ([a-z]+) {2,}\S", re.MULTILINE)
"""A command in the help of a group of commands."""
OPTION = re.compile(r"^ +(?:-\w, )?--([a-z0-9-]+)", re.MULTILINE)
"""An option in the help of a command."""


def said(result: subprocess.CompletedProcess, status: int = 0) -> str:
    """Standard output of a client that ended as it should."""
    assert result.returncode == status, result
    return result.stdout.decode()


AGE = re.compile(r"(?:About an?|Less than a|\d+) (?:second|minute|hour)s?")


def ageless(output: bytes) -> str:
    """A table in which every age is the same, and every gap one blank: two clients look at different moments."""
    return re.sub(r" +", " ", AGE.sub("AGE", output.decode()))
