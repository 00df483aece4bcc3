"""A host whose flash hates writes: while nothing is asked, no process of the engine writes anything, anywhere.

Ten containers run, of every kind that has a process of the engine's beside its monitor. The default run looks for a
part of a minute, the full form for ten minutes. The kernel counts: each write(2) and its kin of a process, whatever it
is to (/proc/PID/io), and the times and sizes of all files of the roots show what a mapping would have changed.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.networking import subnet
from tests.chaos import form
from tests.harness.daemon import Daemon
from tests.harness.listening import until

SECONDS = form.short_or_full(20, 600)
SETTLED = 35  # seconds: the second spare ends half a minute after the last exec, and the start's own rows are written
QUIET = "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"
COUNTED = ("wchar", "syscw", "write_bytes")


def family(pid: int) -> Iterator[int]:
    """A process, and all that it and its children have forked."""
    yield pid
    for task in os.listdir(f"/proc/{pid}/task"):
        children = ""
        with contextlib.suppress(FileNotFoundError):  # a thread of the daemon that has answered ends
            children = Path(f"/proc/{pid}/task/{task}/children").read_text()
        for child in children.split():
            yield from family(int(child))


def engines(daemon: Daemon, containers: list[str]) -> list[int]:
    """The processes of the engine: the daemon's family, and that of each monitor, without the containers' own."""
    inside = {pid for one in containers for pid in family(daemon.inspect(one)["State"]["Pid"])}
    parents = set()
    for one in containers:
        with open(f"/proc/{daemon.inspect(one)['State']['Pid']}/stat") as file:
            parents.add(int(file.read().rpartition(")")[2].split()[1]))
    found = {*family(daemon.pid), *(pid for parent in parents for pid in family(parent))}
    return sorted(found - inside)


def counted(pids: list[int]) -> dict[int, dict[str, int]]:
    """What the kernel has counted of each process."""
    found = {}
    for pid in pids:
        rows = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
        found[pid] = {name: int(rows[name]) for name in COUNTED}
    return found


def files(*roots: Path) -> dict[str, tuple[int, int, int]]:
    """Each file of these directories, with its inode, its size and when it was changed."""
    found = {}
    for root in roots:
        for directory, _, names in os.walk(root):
            for name in (*names, ""):
                path = os.path.join(directory, name)
                about = os.lstat(path)
                found[path] = (about.st_ino, about.st_size, about.st_mtime_ns)
    return found


@pytest.mark.timeout(SECONDS + 300)
def test_an_idle_engine_with_ten_containers_writes_nothing(own_daemon: Daemon) -> None:
    daemon = own_daemon
    assert daemon.request("POST", "/networks/create", {"Name": "quiet", **subnet("10.91.0.0/24")}).status == 201
    named = {"NetworkMode": "quiet", "RestartPolicy": {"Name": "always"}}
    published = {"NetworkMode": "bridge", "PortBindings": {"80/tcp": [{"HostIp": "", "HostPort": "0"}]}}
    kinds = [
        *({"HostConfig": named} for _ in range(3)),
        {"HostConfig": published, "ExposedPorts": {"80/tcp": {}}},
        {"Tty": True, "OpenStdin": True},
        {"HostConfig": {"NetworkMode": "none", "Init": True, "Binds": ["kept:/kept"]}},
        *({} for _ in range(4)),
    ]
    ones = [daemon.create("sh", "-c", QUIET, **kind) for kind in kinds]
    for one in ones:
        daemon.begin(one)
    assert daemon.request("GET", "/containers/json").status == 200
    time.sleep(SETTLED)
    pids = engines(daemon, ones)
    assert len(pids) >= 2 + len(ones), pids
    roots = (daemon.data_root, daemon.exec_root)
    # The last questions are answered before the count begins; an answer is a write, too.
    before, seen = counted(pids), files(*roots)
    time.sleep(SECONDS)
    after = counted(pids)
    titles = {pid: Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ") for pid in pids}
    assert {titles[pid]: (before[pid], after[pid]) for pid in pids if before[pid] != after[pid]} == {}
    assert {path: (seen.get(path), now) for path, now in files(*roots).items() if seen.get(path) != now} == {}
    assert engines(daemon, ones) == pids
    # Whoever asks has an answer written: it is counted, so what is not counted was not written.
    assert counted([daemon.pid])[daemon.pid]["syscw"] > after[daemon.pid]["syscw"]
    for one in ones:
        daemon.remove(one)
    until(lambda: daemon.request("DELETE", "/networks/quiet").status == 204)
