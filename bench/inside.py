"""Runs `ends` (client and server of the network benchmarks) inside the network namespaces of containers, whichever
engine made them.

Used in the benchmarks' process, as root. An engine has a PID namespace of its own, so this process knows the
containers' processes by other pids than the engine does.
"""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench import ends
from bench.isolation import Isolated


def outer_pid(isolated: Isolated, pid: int) -> int:
    """The pid here of the process that the engine in `isolated` knows as `pid`. Raises LookupError."""
    top = isolated.pid
    if top is None:
        raise LookupError("the engine has ended")
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                numbers = _field(entry, "NSpid")
                if len(numbers) > 1 and numbers[1] == pid and top in _ancestors(int(entry.name)):
                    return numbers[0]
    raise LookupError(f"process {pid} of the engine's is not to be found")


def _field(entry: Path, name: str) -> list[int]:
    lines = (entry / "status").read_text().splitlines()
    return next(([int(word) for word in line.split()[1:]] for line in lines if line.startswith(f"{name}:")), [])


def _ancestors(pid: int) -> Iterator[int]:
    while pid > 1:
        yield pid
        (pid,) = _field(Path(f"/proc/{pid}"), "PPid")


class Place:
    """The network namespace of a process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def command(self, *words: str) -> list[str]:
        """The command that runs `ends` with these words inside."""
        return ["nsenter", f"--target={self.pid}", "--net", "--", sys.executable, "-I", ends.__file__, *words]

    def figure(self, *words: str) -> float:
        """Run a client inside and return the figure that it prints. Raises RuntimeError when it fails."""
        done = subprocess.run(self.command(*words), capture_output=True, text=True, timeout=60)
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip().splitlines()[-1:]}")
        return float(done.stdout)

    @contextlib.contextmanager
    def serving(self, address: str, port: int) -> Iterator[None]:
        """Keep a server running inside for the length of a `with` block. Raises RuntimeError when it does not start."""
        server = subprocess.Popen(self.command("serve", address, str(port)), stdout=subprocess.PIPE)
        try:
            assert server.stdout is not None
            with server.stdout as said:
                if said.readline() != b"ready\n":
                    raise RuntimeError(f"nobody serves at {address}")
                yield
        finally:
            server.kill()
            server.wait()
