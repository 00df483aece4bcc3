"""`python -m tests.long [TARGET ...] [--runs N]`: each target with that many inputs, one process each.

Started by `python3 -m tests --long`, which puts atheris into the tests' environment first. A target is fed with what
`tests.unit.images.hostile` makes of atheris' bytes; coverage of the engine's readers guides it. The first input that
is answered by anything but an `EngineError`, or that leaves something behind, ends the run: it is kept in the file
that atheris names, and `python -m tests.long TARGET FILE` asks it again.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

TARGETS = ("load", "layer")
RUNS = 100_000
LONGEST = 2048
SECONDS = 25


def main() -> int:
    """Run the targets; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.long", description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", help=f"targets ({', '.join(TARGETS)}), and files to be asked again")
    parser.add_argument("--runs", type=int, default=RUNS)
    asked = parser.parse_args()
    targets = [word for word in asked.what if word in TARGETS] or TARGETS
    files = [word for word in asked.what if word not in TARGETS]
    failed = []
    for target in targets:
        # In memory: nobody asks here whether it lasts, and each image that is loaded is flushed to the disk.
        with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as directory:
            command = [sys.executable, "-m", "tests.long", "--one", target, directory]
            options = [f"-runs={asked.runs}", f"-max_len={LONGEST}", "-len_control=0", f"-timeout={SECONDS}"]
            options.append(f"-artifact_prefix={tempfile.gettempdir()}/")
            if subprocess.run([*command, *(files or options)]).returncode:
                failed.append(target)
    print(f"tests.long: {asked.runs} inputs each; " + (f"failed: {', '.join(failed)}" if failed else "all is well"))
    return 1 if failed else 0


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

    atheris.Setup([sys.argv[0], *options], ask)
    atheris.Fuzz()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        fuzz(sys.argv[2], sys.argv[3], sys.argv[4:])
    else:
        sys.exit(main())
