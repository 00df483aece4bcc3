"""The tools that run a container without any engine: the floor under the flow; one table.

Run by the benchmarks' process. A tool gets an unpacked root filesystem and namespaces of its own, made once, and is
run in there by `runner`; it has no layers to mount, no log to write and nobody to report to.
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
    """A tool: its program, the column it fills, and the command for a root filesystem and a directory to write in."""

    program: str
    name: str
    command: Callable[[Path, Path], list[str]]


def _bundle(program: str, root: Path, directory: Path) -> list[str]:
    """A bundle from the tool's own template (runtime-spec, config.md), its terminal off, its program ours."""
    directory.mkdir()
    subprocess.run([program, "spec"], cwd=directory, check=True)
    path = directory / "config.json"
    spec = json.loads(path.read_text())
    spec["root"] = {"path": str(root)}
    spec["process"].update(args=ARGV, terminal=False)
    # A host without CAP_SYS_RESOURCE cannot raise what the template asks for.
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
    """The tools that are installed."""
    return [tool for tool in TOOLS if shutil.which(tool.program)]


class Direct:
    """A tool ready to run; a context manager. `directory` is made, and removed by `close`."""

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
        """Run the container to its end. Raises RuntimeError when it did not say what it should."""
        self._orders.send(b"\n")
        answer = self._orders.recv(2048)
        if answer != b"0 hello\n":
            raise RuntimeError(f"{answer.decode(errors='replace')} {self.isolated.tail()}")

    def close(self) -> None:
        """End it and remove its files."""
        self.isolated.close()
        self._orders.close()
        shutil.rmtree(self.directory)
