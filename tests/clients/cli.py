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
