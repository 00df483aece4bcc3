"""`pip install .`: what a wheel of this tree holds, and that its commands run."""

import os
import platform
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

from engine.bundle import objects
from engine.bundle.pyz import SURE
from tests.__main__ import CACHE
from tests.harness import traps
from tests.setup import zig

PROJECT = Path(__file__).resolve().parents[2]
NOT_SOURCE = shutil.ignore_patterns(
    *(".git", "__pycache__", "*.egg-info", "*.so", ".*_cache", ".benchmarks", "targets", ".hypothesis")
)
TARGETS = {
    "x86_64-linux-gnu": "manylinux_2_17_x86_64",
    "aarch64-linux-gnu": "manylinux_2_17_aarch64",
    "x86_64-linux-musl": "musllinux_1_2_x86_64",
    "aarch64-linux-musl": "musllinux_1_2_aarch64",
}
HERE = f"{platform.machine()}-linux-gnu"
SETUPTOOLS = 77  # as pyproject.toml asks
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
# The first run on a machine compiles the C libraries of four kinds of machines, beside all other tests.
pytestmark = [pytest.mark.seldom, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree to build in."""
    needed = {name: find_spec(name) for name in ("pip", "setuptools", "wheel")}
    if not all(needed.values()) or int(version("setuptools").partition(".")[0]) < SETUPTOOLS:
        pytest.skip(f"needs pip, wheel and setuptools {SETUPTOOLS} or later")
    source = tmp_path_factory.mktemp("wheel") / "source"
    shutil.copytree(PROJECT, source, ignore=NOT_SOURCE)
    shutil.rmtree(source / "build", ignore_errors=True)  # what an earlier wheel left; engine/daemon/builder is source
    return source


def made(source: Path, to: Path, target: str = "") -> tuple[Path, str]:
    """A wheel built offline, and what was said."""
    built = subprocess.run(
        [*PIP, "wheel", "--no-build-isolation", "--no-deps", "--no-index", "-v", "-w", to, source],
        capture_output=True,
        text=True,
        env={**os.environ, "ENGINE_TARGET": target},
    )
    assert built.returncode == 0, built.stdout[-4000:] + built.stderr[-4000:]
    (found,) = to.glob("*.whl")
    return found, built.stdout + built.stderr


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A wheel for this machine, and what was said."""
    return made(source, tmp_path_factory.mktemp("here"))


@pytest.fixture(scope="module")
def crossed(source: Path) -> Path:
    """The tree, with the C muxer compiled for every target."""
    if not zig.complete(CACHE):
        pytest.skip("there is no Zig: python3 -m tests")
    command = [sys.executable, "-m", "_muxer.cross"]
    environment = {**os.environ, **zig.variables(CACHE)}
    done = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return source


@pytest.fixture(scope="module", params=sorted(TARGETS))
def foreign(
    crossed: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """A target, and its wheel."""
    return request.param, made(crossed, tmp_path_factory.mktemp(request.param), request.param)[0]


def test_a_wheel_holds_the_engine_and_its_data_and_no_tests(wheel):
    names = zipfile.ZipFile(wheel[0]).namelist()
    for name in ("engine/__main__.py", "engine/daemon/main.py", "engine/sandbox/seccomp_default.json"):
        assert name in names
    assert not [name for name in names if name.startswith(("tests", "bench"))]


def test_the_muxer_is_built_for_all_pythons_or_its_absence_is_said_aloud(wheel):
    path, output = wheel
    native = [name for name in zipfile.ZipFile(path).namelist() if re.match(r"_muxer/_native\..*(so|pyd)$", name)]
    if find_spec("cffi") is None or shutil.which("cc") is None:
        assert not native
        assert "*** engine: installed as pure Python" in output
    else:
        assert native == ["_muxer/_native.abi3.so"]
        assert "-abi3-" in path.name
        assert "*** engine: the C muxer is built" in output


def test_the_commands_of_an_installed_wheel_run(wheel, tmp_path):
    install = [*PIP, "install", "--no-deps", "--no-index", "--prefix", tmp_path, wheel[0]]
    subprocess.run(install, check=True, capture_output=True)
    (packages,) = tmp_path.glob("lib*/python*/site-packages")
    for command, text in (("engine", "Usage:  engine [OPTIONS] COMMAND"), ("engined", "Usage: engine daemon")):
        script = tmp_path / "bin" / command
        shown = subprocess.run([script, "--help"], env={"PYTHONPATH": packages}, capture_output=True, text=True)
        assert shown.stdout.startswith(text), shown


@pytest.mark.root
def test_an_installed_wheel_is_not_sprung(wheel, world, tmp_path):
    """`test_traps` says more."""
    venv.create(tmp_path / "venv", symlinks=True)
    python = tmp_path / "venv/bin/python"
    install = [*PIP, "--python", python, "install", "--no-deps", "--no-index", wheel[0]]
    subprocess.run(install, check=True, capture_output=True)
    assert traps.sprung(world, [str(python.parent / "engine")]) == set()


def test_docker_init_is_in_the_wheel_as_a_program(wheel):
    path, output = wheel
    found = [each for each in zipfile.ZipFile(path).infolist() if each.filename == "_muxer/docker-init"]
    if "*** engine: the C muxer is built" not in output:
        assert not found
    else:
        assert len(found) == 1 and found[0].external_attr >> 16 & 0o111


def test_a_wheel_says_where_it_runs(foreign: tuple[str, Path]) -> None:
    """By its name, and its library is of that machine; nothing but a C library is asked for."""
    target, path = foreign
    assert path.name.endswith(f"-cp311-abi3-{TARGETS[target]}.whl")
    library = zipfile.ZipFile(path).read("_muxer/_native.abi3.so")
    assert objects.target(library).startswith(target)
    assert set(re.findall(rb"lib[a-z_]+\.so[.0-9]*", library)) <= {b"libc.so", b"libc.so.6", b"libpthread.so.0"}


def test_docker_init_of_a_wheel_runs(foreign: tuple[str, Path], tmp_path: Path) -> None:
    target, path = foreign
    program = Path(zipfile.ZipFile(path).extract("_muxer/docker-init", tmp_path))
    program.chmod(0o755)
    machine = target.partition("-")[0]
    emulator = [] if machine == platform.machine() else [f"qemu-{machine}-static"]
    if emulator and shutil.which(emulator[0]) is None:
        pytest.skip(f"there is no {emulator[0]}: apt-get install qemu-user-static")
    done = subprocess.run([*emulator, program, "--", "/bin/sh", "-c", "echo there; exit 3"], capture_output=True)
    assert (done.returncode, done.stdout) == (3, b"there\n"), done


def test_musl_finds_all_that_the_library_needs(crossed: Path, tmp_path: Path) -> None:
    """All but what Python has, for which this program stands."""
    if shutil.which("musl-gcc") is None:
        pytest.skip("there is no musl-gcc: apt-get install musl-tools")
    library = crossed / f"_muxer/targets/{platform.machine()}-linux-musl/_native.abi3.so"
    listed = subprocess.run(["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True)
    names = [name for name in listed.stdout.split() if name.startswith(("Py", "_Py"))]
    assert "PyImport_ImportModule" in names
    program = "#include <dlfcn.h>\n#include <stdio.h>\n" + "".join(f"void *{name}[64];\n" for name in names)
    program += "int main(int c, char **v) { void *p = dlopen(v[1], RTLD_NOW); if (!p) puts(dlerror()); return !p; }\n"
    (tmp_path / "load.c").write_text(program)
    subprocess.run(["musl-gcc", "-rdynamic", "-o", tmp_path / "load", tmp_path / "load.c"], check=True)
    done = subprocess.run([tmp_path / "load", library], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.root
def test_an_installed_wheel_for_many_linuxes_runs_containers(
    crossed: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """From its own directory alone, with its C muxer."""
    path, _ = made(crossed, tmp_path_factory.mktemp("many"), HERE)
    install = [*PIP, "install", "--no-deps", "--no-index", "--prefix", tmp_path, path]
    subprocess.run(install, check=True, capture_output=True)
    (packages,) = tmp_path.glob("lib*/python*/site-packages")
    apart = ("unshare", "--net", "--mount", "sh", "-c", 'ip link set lo up; exec "$@"', "sh")
    environment = {"PYTHONPATH": str(packages), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [*apart, tmp_path / "bin/engine", "demo"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0 and "hello from a container" in done.stdout, done.stdout + done.stderr
    asked = "import _muxer._native as n; print(n.__file__)"
    shown = subprocess.run([sys.executable, "-c", asked], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert shown.stdout.strip() == f"{packages}/_muxer/_native.abi3.so"


def test_the_engine_in_one_file_has_all_of_them(crossed: Path, tmp_path: Path) -> None:
    """In less than a megabyte, with code of what each start needs first; this host runs its own C, from memory."""
    command = [sys.executable, "-m", "engine", "bundle", "-o", tmp_path / "engine.pyz"]
    done = subprocess.run(command, cwd=crossed, capture_output=True, text=True, check=True)
    listed = "aarch64-linux-gnu-2.17, aarch64-linux-musl-0, x86_64-linux-gnu-2.17, x86_64-linux-musl-0"
    assert f"C muxer for: {listed}\n" in done.stdout
    assert (tmp_path / "engine.pyz").stat().st_size <= 1_000_000
    coded = int(re.search(r"of which (\d+) have code", done.stdout)[1])
    assert coded >= SURE, done.stdout
    checked = subprocess.run([sys.executable, tmp_path / "engine.pyz", "check"], capture_output=True, text=True)
    assert re.search(r"^ok +C muxer +built, and loads$", checked.stdout, re.MULTILINE), checked.stdout
