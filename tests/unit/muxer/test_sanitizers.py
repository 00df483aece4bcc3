"""All the tests of both rooms again, in a process whose muxer watches its own memory (ASan) and arithmetic (UBSan)."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

RUN = """
import sys
sys.path.insert(0, sys.argv[1])
import _muxer._native
assert _muxer._native.__file__.startswith(sys.argv[1]), _muxer._native.__file__
import pytest
sys.exit(pytest.main(sys.argv[2:]))
"""


@pytest.mark.seldom
@pytest.mark.timeout(1000)  # half a minute alone, and it is slow beside others
def test_the_muxer_is_clean_under_the_sanitizers(tmp_path):
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc")
    if importlib.util.find_spec("cffi") is None:
        pytest.skip("there is no cffi to build with")
    from _muxer.build import build  # late: it needs cffi

    package = tmp_path / "_muxer"
    package.mkdir()
    shutil.copy(ROOT / "_muxer" / "__init__.py", package)
    build(package, sanitize=True)
    asan = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True).stdout
    if not os.path.isabs(asan.strip()):
        pytest.skip("gcc has no libasan")
    environment = os.environ | {
        "LD_PRELOAD": asan.strip(),
        # Python itself keeps memory to its end; descriptors and mappings have tests of their own.
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:exitcode=99",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "PYTHONMALLOC": "malloc",
        "MUXER_EXAMPLES": "15",
        "ENGINE_TEST_EXAMPLES": "8",
    }
    files = ("twins", "pumps", "stay", "messages", "waiters", "process_properties")
    tests = ["tests/unit/logs", "tests/unit/proxy", *(f"tests/unit/muxer/test_{name}.py" for name in files)]
    tests += [f"tests/sandbox/test_{name}.py" for name in ("twins", "failures")]
    tests += ["tests/unit/images/layers/test_extract_twins.py"]
    # These have no C in them.
    tests += [f"--ignore=tests/unit/logs/test_{name}.py" for name in ("attributes", "senders")]
    command = [
        sys.executable,
        "-c",
        RUN,
        str(tmp_path),
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-k",
        # AddressSanitizer has pages of its own: nothing can be said of the memory of the half that stays.
        "not python and not few_pages",
        *tests,
    ]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]
