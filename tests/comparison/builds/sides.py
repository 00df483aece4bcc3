"""The two that build: a buildkitd, and this engine behind BuildKit's API; each is asked by buildctl.

Run by the job's process. Each lives in namespaces of its own, twins of each other, and below one directory.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.comparison.builds import bases, outcome
from tests.comparison.builds.case import Case, written
from tests.comparison.sides import KEEPER
from tests.harness import leaks
from tests.harness.daemon import Daemon
from tests.harness.namespaces import Namespaces
from tests.harness.pace import patient
from tests.setup import buildctl, dockerd

SECONDS = 60.0
LONG = 30.0


class Buildkitd:
    """A started buildkitd, with overlayfs and runc; a context manager. It is killed, for it keeps no promise here."""

    def __init__(self, root: Path, cache: Path, parent: str) -> None:
        self.root = root
        self.address = f"unix://{root / 's'}"
        root.mkdir(parents=True)
        runc = dockerd.RUNC.place(cache, "runc")
        (root / "toml").write_text(f'[worker.oci]\n  defaultCgroupParent = "/{parent}"\n  gc = false\n')
        words = ["--config", str(root / "toml"), "--root", str(root / "d"), "--addr", self.address, "--oci-worker=true"]
        words += ["--containerd-worker=false", f"--oci-worker-binary={runc}", "--oci-worker-snapshotter=overlayfs"]
        self.namespaces = Namespaces(KEEPER)
        # A /run of its own, for its executor's state.
        script = 'mount -t tmpfs none /run && exec "$@"'
        program = str(buildctl.DAEMON.place(cache, "buildkitd"))
        command = ["sh", "-c", script, "sh", program, *words, "--oci-worker-net=host"]
        with open(root / "log", "wb") as log:
            self.process = subprocess.Popen(
                self.namespaces.command(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        end = time.monotonic() + patient(SECONDS)
        while not (root / "s").exists():
            assert self.process.poll() is None and time.monotonic() < end, (root / "log").read_text()[-3000:]
            time.sleep(0.05)  # somebody else's program says nowhere that it is ready

    def close(self) -> None:
        """End it."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.namespaces.close()


class Layouts:
    """The images that builds begin with, in directories below `root`. programs: as of `bases.layers`"""

    def __init__(self, root: Path, programs: bool) -> None:
        self.root = root
        self.digests = {name: bases.written(name, root / name, programs) for name in bases.CONFIGS}


class Side:
    """One that builds, and how buildctl reaches it. place: a directory for its archives, made here"""

    def __init__(self, address: str, place: Path, program: Path, layouts: Layouts) -> None:
        self.address, self.place, self.program, self.layouts = address, place, program, layouts
        place.mkdir(parents=True)

    def build(self, case: Case, context: Path) -> dict:
        """What comes of a build of this context, which is there."""
        archive = self.place / context.name
        words = ["build", "--progress=rawjson", "--frontend=dockerfile.v0", "--local", f"context={context}"]
        words += ["--local", f"dockerfile={context}"]
        options = dict(case.options)
        for name, digest in self.layouts.digests.items():
            words += ["--oci-layout", f"{name}={self.layouts.root / name}"]
            options.setdefault(f"context:{name}", f"oci-layout://{name}@{digest}")
        words += [word for key, value in options.items() for word in ("--opt", f"{key}={value}")]
        attributes = {"dest": str(archive), **case.output}
        words += ["--output", ",".join(f"{key}={value}" for key, value in attributes.items())]
        try:
            done = subprocess.run(
                [str(self.program), "--addr", self.address, *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=LONG,
            )
        except subprocess.TimeoutExpired:
            return {"status": "endless"}
        stderr = done.stderr.decode(errors="replace")
        try:
            if done.returncode:
                return outcome.failed(stderr)
            return outcome.made(archive.read_bytes(), stderr)
        finally:
            archive.unlink(missing_ok=True)


class Sides:
    """Both; a context manager. root: a new directory with a short path; cache: where the set-up keeps programs"""

    def __init__(self, root: Path, cache: Path, programs: bool = True) -> None:
        self.root, self.cache = root, cache
        self.parent = f"builds-{os.getpid()}"
        self.layouts = Layouts(root, programs)
        self.program = buildctl.PROGRAMS.place(cache, "buildctl")
        self.held = ExitStack()

    def __enter__(self) -> "Sides":
        try:
            theirs = Buildkitd(self.root / "t", self.cache, self.parent)
            self.held.callback(theirs.close)
            machine = self.held.enter_context(Namespaces(KEEPER))
            daemon = Daemon(self.root / "o", machine, ("--cgroup-parent", f"/{self.parent}"), log_level="info").start()
            self.held.callback(daemon.close)
            self.theirs = Side(theirs.address, self.root / "from-theirs", self.program, self.layouts)
            self.ours = Side(f"unix://{daemon.socket}", self.root / "from-ours", self.program, self.layouts)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def both(self) -> Sequence[Side]:
        """buildkitd's first."""
        return self.theirs, self.ours

    def context(self, case: Case, name: str) -> Path:
        """The case's files, in a new directory that all sides read."""
        place = self.root / "contexts" / name
        written(case, place)
        return place

    def close(self) -> None:
        """End both, and leave nothing."""
        self.held.close()
        shutil.rmtree(self.root, ignore_errors=True)
        for parent in leaks.cgroups_of(self.parent):
            for each, _, _ in os.walk(parent, topdown=False):
                os.rmdir(each)
