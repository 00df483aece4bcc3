"""A daemon that is called dockerd and told nothing: on a machine whose /run, /var/lib and /etc are empty but for one.

Run by the test process. The program is a real link `dockerd` to what pip or `engine bundle` installs. The machine's own
directories are hidden in a mount namespace, so nothing of them is read or written.
"""

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.harness.daemon import PROJECT
from tests.harness.listening import until
from tests.harness.namespaces import Namespaces

_EMPTY = ("/run", "/var/lib", "/etc")


def program(name: str, place: Path) -> Path:
    """The daemon's program under this name: a link to what pip makes as `engined`, unless that is the name."""
    script = place / "engined"
    script.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(PROJECT)!r})\n"
        "from engine.__main__ import daemon\nsys.exit(daemon())\n"
    )
    script.chmod(0o755)
    return linked(name, script)


def linked(name: str, script: Path) -> Path:
    """A link of this name beside the program."""
    link = script.parent / name
    if link != script:
        link.unlink(missing_ok=True)
        link.symlink_to(script.name)
    return link


@contextlib.contextmanager
def running(machine: Namespaces, place: Path, dockerd: Path, prepare: Sequence[str] = ()) -> Iterator[Path]:
    """While the program runs: its root directory, as /proc shows it. prepare: what the shell does before

    The file `log` in `place` has the daemon's words. At the end it is told to end, and has to do so in order.
    """
    lines = (*(f"mount -t tmpfs none {each}" for each in _EMPTY), *prepare, f"exec {dockerd}")
    shell = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", "; ".join(lines)]
    with open(place / "log", "wb") as log:
        process = subprocess.Popen(machine.command(shell), stdout=log, stderr=log)
    try:
        until(lambda: process.poll() is not None or "ready: " in (place / "log").read_text())
        assert process.poll() is None, (place / "log").read_text()
        root = Path(f"/proc/{process.pid}/root")
        assert (root / "run/docker.pid").read_text() == f"{process.pid}\n"
        yield root
    finally:
        process.terminate()
        assert process.wait(60) == 0, (place / "log").read_text()
