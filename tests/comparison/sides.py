"""The two daemons that are asked: a current dockerd, and this engine; each is sent the steps of a sequence.

Run by the job's process. Each lives in namespaces of its own, twins of each other, and below one directory.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from tests.api.archives import docker_archive
from tests.comparison.step import TAR, VERSION, Step
from tests.harness import inplace, leaks, rootfs
from tests.harness.daemon import PROJECT, Daemon
from tests.harness.http import Answer, Connection
from tests.harness.namespaces import Namespaces
from tests.harness.pace import patient
from tests.setup import dockerd

SECONDS = 90.0
CONFIG = {"Cmd": ["sh"], "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]}
MADE = {"created": "2026-11-20T05:26:10.775212621Z"}
# dockerd does not switch forwarding on for nftables, so both find it switched on.
KEEPER = (
    "ip link set lo up; cd /proc/sys/net; echo 1 > ipv4/ip_forward; echo 1 > ipv6/conf/all/forwarding; "
    "echo 1 > ipv6/conf/default/forwarding; echo ready; exec sleep 86400"
)
INIT = PROJECT / "_muxer" / "docker-init"
LOST = 599  # the status of an answer that never came


class Engine(Protocol):
    """A daemon that can be asked."""

    def connection(self, timeout: float = 30.0) -> Connection:
        """A new connection to its socket."""


class CurrentDockerd:
    """A started dockerd of today, with the containerd that it starts for itself; a context manager."""

    def __init__(self, root: Path, cache: Path, options: Sequence[str] = ()) -> None:
        self.root, self.socket = root, root / "s"
        root.mkdir(parents=True)
        self.namespaces = Namespaces(KEEPER)
        programs = [str(part.place(cache, part.names[0]).parent) for part in dockerd.PARTS]
        environment = {**os.environ, "PATH": os.pathsep.join((*programs, os.environ.get("PATH", os.defpath)))}
        places = ["--data-root", str(root / "d"), "--exec-root", str(root / "e"), "--pidfile", str(root / "p")]
        words = ["--host", f"unix://{self.socket}", *places, "--firewall-backend=nftables", *options]
        # A /run of its own, because containerd's shims have their sockets there.
        script = 'mount -t tmpfs none /run && exec dockerd "$@"'
        with open(root / "log", "wb") as log:
            self.process = subprocess.Popen(
                self.namespaces.command(["sh", "-c", script, "sh", *words]),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        end = time.monotonic() + patient(SECONDS)
        while not self.socket.exists():
            assert self.process.poll() is None and time.monotonic() < end, (root / "log").read_text()[-3000:]
            time.sleep(0.05)  # somebody else's program says nowhere that it is ready

    def __enter__(self) -> "CurrentDockerd":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connection(self, timeout: float = 30.0) -> Connection:
        """A new connection to its socket."""
        return Connection(self.socket, timeout)

    def close(self) -> None:
        """End dockerd, which ends its containerd; containers were removed by then."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(SECONDS)
        self.namespaces.close()


class _Ours(Daemon):
    """This engine under the name dockerd, so that it has dockerd's defaults."""

    def arguments(self) -> list[str]:
        """Its command line, with a link of that name in the place of the module."""
        link = inplace.program("dockerd", self.root)
        words = super().arguments()
        return [str(link), *words[words.index("daemon") + 1 :]]


class Side:
    """One daemon and the ids that it has given in a sequence."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.ids: dict[str, str] = {}

    def send(self, step: Step, seconds: float = 60.0) -> Answer:
        """The answer to one step; status 599 where the connection was closed or nothing came in time."""
        path = re.sub(r"\{(\w+)\}", lambda match: self.ids.get(match[1], match[1]), step.path)
        try:
            with self.engine.connection(seconds) as connection:
                answer = connection.request(step.method, f"/{VERSION}{path}", step.body, dict(step.headers))
        except (OSError, EOFError, AssertionError) as error:
            return Answer(LOST, {}, repr(error).encode())
        if step.saves:
            self.ids[step.saves] = answer.json().get("Id", step.saves) if answer.status == 201 else step.saves
        return answer

    def clean(self, label: str) -> None:
        """Remove what a sequence has left; its things carry the label or begin with it."""
        filters = json.dumps({"label": [f"comparison={label}"]})
        for container in self.found(f"/containers/json?all=1&filters={filters}"):
            self.send(Step("DELETE", f"/containers/{container['Id']}?force=1&v=1"))
        for each in self.found("/networks"):
            if each["Name"].startswith(label):
                self.send(Step("DELETE", f"/networks/{each['Id']}"))
        for each in self.found("/volumes", "Volumes"):
            if each["Name"].startswith(label) or len(each["Name"]) == 64 or each["Name"] in ("v", "data"):
                self.send(Step("DELETE", f"/volumes/{each['Name']}?force=1"))
        for each in self.found("/images/json"):
            for name in each.get("RepoTags") or [each["Id"]]:
                if not name.startswith("busybox:"):
                    self.send(Step("DELETE", f"/images/{name}?force=1"))
        self.ids.clear()

    def found(self, path: str, key: str = "") -> Iterable[dict]:
        """A list of the daemon's."""
        answer = self.send(Step("GET", path))
        found = answer.json() if answer.status == 200 else []
        return (found[key] if key and found else found) or []

    def furnish(self) -> None:
        """Load the image that all sequences use."""
        archive = docker_archive([rootfs.busybox()], ["busybox:latest"], CONFIG, MADE)
        answer = self.send(Step("POST", "/images/load", archive, TAR))
        assert answer.status == 200 and b"rror" not in answer.body, answer


class Sides:
    """Both; a context manager. root: a new directory with a short path; cache: where the set-up keeps programs"""

    def __init__(self, root: Path, cache: Path) -> None:
        self.root = root
        self.parent = f"comparison-{os.getpid()}"
        # What the two have other defaults for is said to both.
        options = ("--cgroup-parent", f"/{self.parent}", "--default-cgroupns-mode", "private")
        options += ("--log-opt", "max-size=20m", "--log-opt", "max-file=5")
        # Debian's docker-init is a link to a program of another package; what init does is not what is compared.
        self.theirs_daemon = CurrentDockerd(root / "t", cache, (*options, "--init-path", str(INIT)))
        self.machine = Namespaces(KEEPER)
        self.ours_daemon = _Ours(root / "o", self.machine, options)
        self.ours_daemon.start()
        self.theirs, self.ours = Side(self.theirs_daemon), Side(self.ours_daemon)
        for side in self.both:
            side.furnish()

    @property
    def both(self) -> tuple[Side, Side]:
        """dockerd's first."""
        return self.theirs, self.ours

    def __enter__(self) -> "Sides":
        return self

    def __exit__(self, *_: object) -> None:
        self.ours_daemon.close()
        self.machine.close()
        self.theirs_daemon.close()
        shutil.rmtree(self.root, ignore_errors=True)
        for each in leaks.cgroups_of(self.parent):
            os.rmdir(each)
