"""The tools that run a container without any engine (crun, runc, bwrap), which give the floor for the flow case, and
crun's exec, which gives that for the exec case.

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
_RUNNING = ["sleep", "600"]
# Starts the container in which each command is run, and goes on as the runner.
_WITH_CONTAINER = 'crun run --detach --bundle "$1" "$2" </dev/null >/dev/null 2>&1 && shift 2 && exec "$@"'


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: its program, its column, and the command for a root filesystem and a directory to write in.

    before: the beginning of the command line of the runner, for a tool that needs a container that runs
    """

    program: str
    name: str
    command: Callable[[Path, Path], list[str]]
    before: Callable[[Path], list[str]] = lambda _: []


def _bundle(program: str, root: Path, directory: Path, argv: list[str] = ARGV) -> list[str]:
    """Make a bundle from the tool's own template (runtime-spec, config.md) with this program and no terminal; returns
    the command.
    """
    directory.mkdir()
    subprocess.run([program, "spec"], cwd=directory, check=True)
    path = directory / "config.json"
    spec = json.loads(path.read_text())
    spec["root"] = {"path": str(root)}
    spec["process"].update(args=argv, terminal=False)
    # A host without CAP_SYS_RESOURCE cannot raise the limits that the template asks for.
    spec["process"].pop("rlimits", None)
    path.write_text(json.dumps(spec))
    return [program, "run", "--bundle", str(directory), _name(directory)]


def _name(bundle: Path) -> str:
    """The container's name, which is that of its cgroups too: no other tool may have the same."""
    return f"bench-{bundle.parent.name}"


def _crun(root: Path, directory: Path) -> list[str]:
    return _bundle("crun", root, directory)


def _runc(root: Path, directory: Path) -> list[str]:
    return _bundle("runc", root, directory)


def _bwrap(root: Path, _: Path) -> list[str]:
    return ["bwrap", "--unshare-all", "--bind", str(root), "/", "--proc", "/proc", "--dev", "/dev", *ARGV]


def _crun_exec(root: Path, directory: Path) -> list[str]:
    _bundle("crun", root, directory, _RUNNING)
    return ["crun", "exec", _name(directory), *ARGV]


def _in_container(directory: Path) -> list[str]:
    return ["sh", "-c", _WITH_CONTAINER, "sh", str(directory), _name(directory)]


CRUN_EXEC = Tool("crun", "crun exec", _crun_exec, _in_container)
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
            runs = [sys.executable, "-I", runner.__file__, str(theirs.fileno()), *command]
            argv = [*tool.before(directory / "bundle"), *runs]
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
