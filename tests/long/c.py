"""The muxer's C under libFuzzer with ASan and UBSan, a target of `tests/unit/muxer/fuzz` each, and under TSan.

Run by `python -m tests.long c`, in its process; each target is a program of its own. What a run has learned stays in
`~/.cache/engine-tests/fuzz/TARGET` (or below XDG_CACHE_HOME) and is where the next one begins.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.unit.muxer import fuzzing

TARGETS = (*(f"c-{name}" for name in fuzzing.TARGETS), "c-threads")
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "engine-tests" / "fuzz"
_THREADS_SECONDS = 60
_LONGEST = 2048
_SLOW_SECONDS = 20


def run(target: str, runs: int, files: list[str]) -> int:
    """One target with that many inputs, or with these files; the exit status: 0 when all is well."""
    name = target.removeprefix("c-")
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory) / name
        if name == "threads":
            fuzzing.build("gcc", ["together"], "thread", program)
            return subprocess.run([program, str(_THREADS_SECONDS)]).returncode
        if shutil.which("clang") is None:
            print(f"tests.long: {target} needs clang and its libFuzzer")
            return 1
        fuzzing.build("clang", [name], f"fuzzer,{fuzzing.MEMORY}", program)
        corpus = _CACHE / name
        corpus.mkdir(parents=True, exist_ok=True)
        options = [f"-runs={runs}", f"-max_len={_LONGEST}", f"-timeout={_SLOW_SECONDS}", "-print_final_stats=1"]
        options += ["-verbosity=0", f"-artifact_prefix={tempfile.gettempdir()}/", str(corpus)]
        return subprocess.run([program, *(files or options)]).returncode
