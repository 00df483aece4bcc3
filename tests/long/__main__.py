"""`python -m tests.long [JOB or TARGET ...] [--runs N]`: each target with that many inputs, one process each.

Started by `python3 -m tests --long`, which puts what is needed into the tests' environment first. The jobs:

    archives    images and layers, made of atheris' bytes by `tests.unit.images.hostile`
    parsers     HTTP, tar, Dockerfiles, JSON and the engine's own messages under atheris, see `tests.long.parsers`
    c           the muxer's C under libFuzzer, ASan, UBSan and TSan, see `tests.long.c`
    api         the tests of tests/api with the Python muxer, by pytest; only when it is named
    user        those of tests/api that can pass with a user's daemon, by pytest; only when it is named
    clients     those of tests/clients that can pass with a user's daemon that sleeps; only when it is named
    chaos       the tests of tests/chaos in full, by pytest; only when it is named
    driver      buildx with BuildKit's own daemon in a container, which is built first; only when it is named
    musl        tests/api with daemons on a Python of musl, and a host of BusyBox; only when it is named
    guest       tests/api as root, `user` and `clients` in a guest, which takes hours; only when it is named
    usermode    the same on a Linux that is a program, which takes fewer; only when it is named
    dockerd     a current dockerd, built first, and this engine are sent the same calls; only when it is named
    buildkit    a current buildkitd, built first, and this engine make the same builds; only when it is named

Without a name all but the last ten are done. The first input that is answered by anything but a refusal, or that
leaves something behind, ends a target's run: it is kept in the file that is named then, and `python -m tests.long
TARGET FILE` asks it again.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

from tests.__main__ import NO_TESTS, SUCCESS, workers
from tests.long import c, current, guest, musl, parsers

ARCHIVES = ("load", "layer")
JOBS = {"archives": ARCHIVES, "parsers": tuple(parsers.TARGETS), "c": c.TARGETS}
TARGETS = tuple(target for targets in JOBS.values() for target in targets)
# Jobs that are tests: the folder or the files, and what is in the environment.
TESTS = {
    "api": ("tests/api", {"ENGINE_TEST_MUXER": "python"}),
    "user": ("tests/api", {"ENGINE_TEST_USER": "1"}),
    # Every client has to be there, as in CI.
    "clients": ("tests/clients", {"ENGINE_TEST_USER": "1", "ENGINE_TEST_ASLEEP": "1", "CI": "true"}),
    "chaos": ("tests/chaos", {"ENGINE_CHAOS": "full"}),
    "driver": ("tests/clients/test_buildx_driver.py", {"ENGINE_TEST_DRIVER": "1"}),
}
MUSL = "musl"
OTHERS = (MUSL, guest.NAME, guest.USERMODE, *current.JOBS)
# What the guest runs: tests/api as root, and two of the jobs.
IN_THE_GUEST = [("root", "tests/api", {}), *((name, *TESTS[name]) for name in ("user", "clients"))]
RUNS = 100_000
LONGEST = 2048
SECONDS = 25


def main() -> int:
    """Run the targets; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.long", description=__doc__.splitlines()[0])
    words = ", ".join((*JOBS, *TESTS, *OTHERS, *TARGETS))
    parser.add_argument("what", nargs="*", help=f"jobs and targets ({words}), and files to be asked again")
    parser.add_argument("--runs", type=int, default=RUNS)
    asked = parser.parse_args()
    targets = [each for word in asked.what for each in JOBS.get(word, (word,) if word in TARGETS else ())]
    files = [word for word in asked.what if word not in (*JOBS, *TARGETS, *TESTS, *OTHERS)]
    jobs = [job for job in TESTS if job in asked.what]
    if not targets and not jobs and not {*OTHERS} & set(asked.what):
        targets = list(TARGETS)
    failed = [target for target in targets if run(target, asked.runs, files)]
    failed += [job for job in jobs if tests(*TESTS[job])]
    if MUSL in asked.what:
        with musl.ready() as variables:
            failed += [MUSL] if tests(musl.FILES, variables) else []
    for job in (guest.NAME, guest.USERMODE):
        if job in asked.what:
            failed += guest.run(IN_THE_GUEST, job)
    failed += [job for job in current.JOBS if job in asked.what and current.run(job)]
    print(f"tests.long: {asked.runs} inputs each; " + (f"failed: {', '.join(failed)}" if failed else "all is well"))
    return 1 if failed else 0


def run(target: str, runs: int, files: list[str]) -> int:
    """One target; its exit status."""
    print(f"tests.long: {target}", flush=True)
    if target in c.TARGETS:
        return c.run(target, runs, files)
    # In memory: nobody asks here whether it lasts, and each image that is loaded is flushed to the disk.
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as directory:
        options = [f"-runs={runs}", f"-max_len={LONGEST}", "-len_control=0", f"-timeout={SECONDS}"]
        options += ["-print_final_stats=1", f"-artifact_prefix={tempfile.gettempdir()}/"]
        command = [sys.executable, "-m", "tests.long", "--one", target, directory]
        return subprocess.run([*command, *(files or [*options, *seeds(target, directory)])]).returncode


def seeds(target: str, directory: str) -> list[str]:
    """The directory with the inputs that a target begins with, if it has any."""
    known = parsers.SEEDS.get(target, ())
    place = pathlib.Path(directory) / "seeds"
    if known:
        place.mkdir()
    for number, seed in enumerate(known):
        (place / str(number)).write_bytes(seed)
    return [str(place)] if known else []


def tests(folder: str, variables: dict[str, str]) -> bool:
    """The tests of a folder, with this in the environment: side by side, and then those that measure time; whether one
    failed.
    """
    every = [
        subprocess.run([sys.executable, "-m", "pytest", *options, *folder.split()], env={**os.environ, **variables})
        for options in ([*workers([]), "-m", "not alone"], ["-m", "alone"])
    ]
    return any(each.returncode not in (SUCCESS, NO_TESTS) for each in every)


class Taken:
    """atheris decides."""

    def __init__(self, provider: object) -> None:
        self._provider = provider

    def number(self, low: int, high: int) -> int:
        """One of low to high."""
        return self._provider.ConsumeIntInRange(low, high)

    def data(self, most: int) -> bytes:
        """Any bytes."""
        return self._provider.ConsumeBytes(self.number(0, most))


def fuzz(target: str, directory: str, options: list[str]) -> None:
    """One target, in this process, which atheris ends."""
    import atheris

    if target in parsers.TARGETS:
        with atheris.instrument_imports(include=list(parsers.ROOMS)):
            ask = parsers.TARGETS[target]()
    else:
        ask = _archives(atheris, target, directory)
    atheris.Setup([sys.argv[0], *options], ask)
    atheris.Fuzz()


def _archives(atheris: object, target: str, directory: str) -> object:
    with atheris.instrument_imports(include=["engine.daemon.images", "engine.daemon.tar", "engine.daemon.jsontext"]):
        from tests.unit.images import hostile, made

    place = pathlib.Path(directory) / "above" / "place"
    place.mkdir(parents=True)
    if target == "load":
        store = made.store(place)

        def ask(data: bytes) -> None:
            hostile.load_and_check(store, hostile.images(Taken(atheris.FuzzedDataProvider(data))))
    else:

        def ask(data: bytes) -> None:
            hostile.unpack_and_check(place, hostile.layer(Taken(atheris.FuzzedDataProvider(data))))

    return ask


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        fuzz(sys.argv[2], sys.argv[3], sys.argv[4:])
    else:
        sys.exit(main())
