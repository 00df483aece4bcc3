"""Other people's engines, for what must go from the one to the other: dockerd as Debian has it, and podman.

Run by the test process. Each lives in namespaces of its own and below a directory of its own, makes no network, and is
gone with what it mounted when it is closed. Nothing in here speaks to an engine that runs on the machine.
"""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.harness.namespaces import Namespaces
from tests.harness.pace import patient

_SECONDS = 90.0
_PODMAN = """
[engine]
lock_type = "file"
events_logger = "file"
cgroup_manager = "cgroupfs"
"""


def need(*programs: str) -> None:
    """Skip where a program is missing; `python3 -m tests` brings them all on Debian."""
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")


class Other:
    """An engine that takes and gives archives; a context manager.

    load: the names or ids that it says it has loaded; save: the archive's bytes; identity: the image's config digest
    """

    name = ""

    def __init__(self, root: Path, client: list[str]) -> None:
        self.root = root
        self.client = client
        root.mkdir(parents=True)
        self.namespaces = Namespaces()

    def __enter__(self) -> "Other":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it."""
        self.namespaces.close()

    def run(self, *words: str, data: bytes | None = None) -> bytes:
        """What its client says; AssertionError with its error."""
        command = self.namespaces.command([*self.client, *words])
        done = subprocess.run(command, input=data, capture_output=True, timeout=60, env=self.environment)
        assert done.returncode == 0, (words, done.stderr.decode(errors="replace"))
        return done.stdout

    @property
    def environment(self) -> dict[str, str]:
        """Of the client."""
        return dict(os.environ)

    def load(self, archive: bytes) -> list[str]:
        """Load; the words after `Loaded image: ` or `Loaded image ID: `, sorted."""
        path = self.root / "in.tar"
        path.write_bytes(archive)
        lines = self.run("load", "--input", str(path)).decode().splitlines()
        return sorted(line.partition(": ")[2] for line in lines if line.startswith("Loaded image"))

    def save(self, *names: str, options: tuple[str, ...] = ()) -> bytes:
        """The archive of the images."""
        path = self.root / "out.tar"
        path.unlink(missing_ok=True)  # podman does not write over one
        self.run("save", *options, "--output", str(path), *names)
        return path.read_bytes()

    def identity(self, name: str) -> str:
        """`sha256:...` of the image's config: what both call its id."""
        found = json.loads(self.run("image", "inspect", name))[0]["Id"]
        return found if found.startswith("sha256:") else f"sha256:{found}"

    def forget(self, *names: str) -> None:
        """Remove images."""
        self.run("rmi", "--force", *names)


class Dockerd(Other):
    """dockerd, with the containerd that it starts for itself; its client is the docker CLI."""

    name = "dockerd"

    def __init__(self, root: Path, *more: str) -> None:
        """more: options of dockerd beside those that keep it from the machine."""
        need("dockerd", "containerd", "runc", "docker")
        self.socket = root / "s"
        super().__init__(root, ["docker", "--host", f"unix://{self.socket}"])
        places = ["--data-root", str(root / "d"), "--exec-root", str(root / "e"), "--pidfile", str(root / "p")]
        options = ["--host", f"unix://{self.socket}", *places, "--iptables=false", "--bridge=none", *more]
        script = 'mount -t tmpfs none /run && exec dockerd "$@"'
        with open(root / "log", "wb") as log:
            self.process = subprocess.Popen(
                self.namespaces.command(["sh", "-c", script, "sh", *options]),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        end = time.monotonic() + patient(_SECONDS)
        while not self.socket.exists():
            assert self.process.poll() is None and time.monotonic() < end, (root / "log").read_text()[-3000:]
            time.sleep(0.02)  # somebody else's program says nowhere that it is ready

    def close(self) -> None:
        """End dockerd, which ends its containerd."""
        self.process.terminate()
        self.process.wait(_SECONDS)
        super().close()


class Podman(Other):
    """podman without a service."""

    name = "podman"

    def __init__(self, root: Path) -> None:
        need("podman")
        places = ["--root", str(root / "d"), "--runroot", str(root / "r"), "--tmpdir", str(root / "t")]
        super().__init__(root, ["podman", *places, "--storage-driver", "vfs"])
        (root / "conf").write_text(_PODMAN)

    @property
    def environment(self) -> dict[str, str]:
        """Of podman: its configuration, and a place for what it leaves lying about."""
        return {**os.environ, "CONTAINERS_CONF": str(self.root / "conf"), "TMPDIR": str(self.root)}


OTHERS = (Dockerd, Podman)
