"""docker compose v2 and buildx, built by the machine's Go from the modules that its proxy has, kept below the cache.

Run by the set-up, beside the fetching of Debian's packages and of the virtual environment, for it takes some minutes on
two processors. Compose has a version of buildx in it, which is the one that is built: they share most of their modules.
A build that fails says why and leaves nothing: the tests that need either are skipped.
"""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

VERSION = "v2.40.3"
MODULE = "github.com/docker/compose/v2"
BUILDX_MODULE, BUILDX_VERSION = "github.com/docker/buildx", "v0.29.1"  # as this compose requires it
BUILDX = f"{BUILDX_MODULE}/cmd/buildx"
OLDEST = (1, 24)  # the Go that this version asks for
SECONDS = 1200
STEPS = (
    ("mod", "init", "build"),  # a module of its own: `go install` takes none whose go.mod excludes others
    ("get", f"{MODULE}/cmd@{VERSION}"),
    ("build", "-o", "docker-compose", "-ldflags", f"-s -w -X {MODULE}/internal.Version={VERSION}", f"{MODULE}/cmd"),
    ("get", f"{BUILDX}@{BUILDX_VERSION}"),
    ("build", "-o", "docker-buildx", "-ldflags", f"-s -w -X {BUILDX_MODULE}/version.Version={BUILDX_VERSION}", BUILDX),
)
# No C compiler is asked for, and none of this is left for others; more memory makes the compiler a quarter faster.
SETTINGS = {"CGO_ENABLED": "0", "GOFLAGS": "-modcacherw -buildvcs=false -trimpath", "GOGC": "400", "GOWORK": "off"}


# Where Go's own archive goes, which is not on everybody's PATH.
PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/local/go/bin"


def place(cache: Path) -> Path:
    """Where the program is: the directory is one of plugins, as the docker CLI looks for them."""
    return cache / f"compose-{VERSION}" / "cli-plugins" / "docker-compose"


def buildx(cache: Path) -> Path:
    """Where buildx is, beside it."""
    return place(cache).with_name("docker-buildx")


def complete(cache: Path) -> bool:
    """Whether both are there."""
    return place(cache).exists() and buildx(cache).exists()


def unable() -> str:
    """Why this machine cannot build it; nothing when it can."""
    go = shutil.which("go", path=PATH)
    if go is None:
        return "there is no Go"
    said = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
    numbers = said.strip().removeprefix("go").split(".")[:2]
    if len(numbers) < 2 or not all(part.isdecimal() for part in numbers) or tuple(map(int, numbers)) < OLDEST:
        return f"it needs Go {'.'.join(map(str, OLDEST))}, and this is {said.strip() or 'none'}"
    return ""


@contextlib.contextmanager
def building(cache: Path) -> Iterator[Callable[[], str]]:
    """The build runs; a function that waits for its end and says what went wrong, if anything. Leaving ends it."""
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="compose-", ignore_cleanup_errors=True) as scratch:
        root = Path(scratch)
        script = " && ".join(shlex.join(("go", *step)) for step in STEPS)
        environment = {
            **os.environ,
            **SETTINGS,
            "PATH": PATH,
            "GOCACHE": str(root / "cache"),
            "GOMODCACHE": str(root / "modules"),
        }
        with open(root / "log", "wb") as log:
            build = subprocess.Popen(
                ["sh", "-c", script],
                cwd=root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

        def finish() -> str:
            try:
                status = build.wait(SECONDS)
            except subprocess.TimeoutExpired:
                return f"it took more than {SECONDS} seconds"
            if status:
                return (root / "log").read_text(errors="replace")[-2000:].strip()
            place(cache).parent.mkdir(parents=True, exist_ok=True)
            for made in (place(cache), buildx(cache)):
                (root / made.name).replace(made)
            return ""

        try:
            yield finish
        finally:
            if build.poll() is None:
                os.killpg(build.pid, signal.SIGKILL)  # of the session that it leads: the shell, go and its compilers
            build.wait()
