"""The tools that run a container without any engine (crun, runc, bwrap), which give the floor for the flow case.

Used in the benchmarks' process. A tool gets an unpacked root filesystem and namespaces of its own, made once, and
`runner` runs it in there. It mounts no layers, writes no log and reports to no daemon.
"""

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench import runner
from bench.isolation import Isolated

ARGV = ["echo", "hello"]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: its program, its column, and the command for a root filesystem and a directory to write in."""

    program: str
    name: str
    command: Callable[[Path, Path], list[str]]


def _bundle(program: str, root: Path, directory: Path) -> list[str]:
    """Make a bundle from the tool's own template (runtime-spec, config.md) with our program and no terminal; returns
    the command.
    """
    directory.mkdir()
    subprocess.run([program, "spec"], cwd=directory, check=True)
    path = directory / "config.json"
    spec = json.loads(path.read_text())
    spec["root"] = {"path": str(root)}
    spec["process"].update(args=ARGV, terminal=False)
    # A host without CAP_SYS_RESOURCE cannot raise the limits that the template asks for.
    spec["process"].pop("rlimits", None)
    path.write_text(json.dumps(spec))
    return [program, "run", "--bundle", str(directory), "bench"]


def _crun(root: Path, directory: Path) -> list[str]:
    return _bundle("crun", root, directory)


def _runc(root: Path, directory: Path) -> list[str]:
    return _bundle("runc", root, directory)


def _bwrap(root: Path, _: Path) -> list[str]:
    return ["bwrap", "--unshare-all", "--bind", str(root), "/", "--proc", "/proc", "--dev", "/dev", *ARGV]


TOOLS = (
    Tool("crun", "crun run", _crun),
    Tool("runc", "runc run", _runc),
    Tool("bwrap", "bwrap", _bwrap),
)

BY_PROGRAM = {tool.program: tool for tool in TOOLS}


def found() -> list[Tool]:
    """The installed tools."""
    return [tool for tool in TOOLS if shutil.which(tool.program)]


class Direct:
    """A tool that is ready to run; a context manager. It makes `directory`, and `close` removes it."""

    def __init__(self, tool: Tool, root: Path, directory: Path) -> None:
        directory.mkdir()
        self.directory = directory
        command = tool.command(root, directory / "bundle")
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            argv = [sys.executable, "-I", runner.__file__, str(theirs.fileno()), *command]
            self.isolated = Isolated(argv, directory / "log", descriptors=[theirs.fileno()])

    def __enter__(self) -> "Direct":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def once(self) -> None:
        """Run the container to its end. Raises RuntimeError for any other output or exit code than expected."""
        self._orders.send(b"\n")
        answer = self._orders.recv(2048)
        if answer != b"0 hello\n":
            raise RuntimeError(f"{answer.decode(errors='replace')} {self.isolated.tail()}")

    def close(self) -> None:
        """End the runner and remove its files."""
        self.isolated.close()
        self._orders.close()
        shutil.rmtree(self.directory)
