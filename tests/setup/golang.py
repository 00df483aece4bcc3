"""Programs that the machine's Go builds from the modules that its proxy has, kept below the cache.

Run by the set-up, beside the fetching of Debian's packages and of the virtual environment, for a build takes some
minutes on two processors. A build that fails says why and leaves nothing: the tests that need it are skipped.
"""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

SECONDS = 1200
# No C compiler is asked for, and none of this is left for others; more memory makes the compiler a quarter faster.
SETTINGS = {"CGO_ENABLED": "0", "GOFLAGS": "-modcacherw -buildvcs=false -trimpath", "GOGC": "400", "GOWORK": "off"}
# Where Go's own archive goes, which is not on everybody's PATH.
PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/local/go/bin"


@dataclass(frozen=True)
class Programs:
    """What one build makes. directory: below the cache, where the programs are kept under the names that they have

    steps: words of `go`, in an empty directory that has copies of `sources`; oldest: the Go that it asks for;
    settings: environment of the build beside `SETTINGS`
    """

    directory: str
    names: tuple[str, ...]
    steps: tuple[tuple[str, ...], ...]
    oldest: tuple[int, int]
    sources: tuple[Path, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)

    def place(self, cache: Path, name: str) -> Path:
        """Where a program is."""
        return cache / self.directory / name

    def complete(self, cache: Path) -> bool:
        """Whether all of them are there."""
        return all(self.place(cache, name).exists() for name in self.names)

    def unable(self) -> str:
        """Why this machine cannot build them; nothing when it can."""
        go = shutil.which("go", path=PATH)
        if go is None:
            return "there is no Go"
        said = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
        numbers = said.strip().removeprefix("go").split(".")[:2]
        if len(numbers) < 2 or not all(part.isdecimal() for part in numbers) or tuple(map(int, numbers)) < self.oldest:
            return f"it needs Go {'.'.join(map(str, self.oldest))}, and this is {said.strip() or 'none'}"
        return ""

    @contextlib.contextmanager
    def building(self, cache: Path) -> Iterator[Callable[[], str]]:
        """The build runs; a function that waits for its end and says what went wrong, if anything. Leaving ends it."""
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix="go-", ignore_cleanup_errors=True) as scratch:
            root = Path(scratch)
            for source in self.sources:
                shutil.copy(source, root)
            script = " && ".join(shlex.join(("go", *step)) for step in self.steps)
            environment = {
                **os.environ,
                **SETTINGS,
                **self.settings,
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
                (cache / self.directory).mkdir(parents=True, exist_ok=True)
                for name in self.names:
                    (root / name).replace(self.place(cache, name))
                return ""

            try:
                yield finish
            finally:
                if build.poll() is None:
                    os.killpg(
                        build.pid, signal.SIGKILL
                    )  # of the session that it leads: the shell, go and its compilers
                build.wait()
