"""`python3 -m tests [pytest arguments]`: all the set-up that the tests need, then the tests; `--long`: the long job.

Run by a developer or by .ci/run with any Python from 3.11 on and nothing installed. It makes a virtual environment
outside the tree, installs Debian packages when it is root on Debian and something is missing, builds `_muxer` in place,
and has pytest run. It must never change the tree except for what .gitignore names, and never runs the engine itself.
"""

import contextlib
import ctypes.util
import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.setup import buildctl, buildx, compose, farguest, goregexp, guest, gvisor, redis, zig
from tests.setup.booting import MACHINES

PROJECT = Path(__file__).resolve().parents[1]
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "engine-tests"
LOCAL = CACHE / "debian"
PROGRAMS = (LOCAL / "usr/bin", LOCAL / "usr/sbin")
SUCCESS, NO_TESTS = 0, 5  # pytest's exit statuses
# The files of tests/api in which the muxer has most to do; `--long api` runs all of them with the Python one.
WITH_THE_PYTHON_MUXER = ("attach", "exec", "heads", "json_file", "log_drivers", "logs", "many_waiters", "survive")
# Those of which every run makes the tests with a user's daemon too; `--long user` runs all that can pass.
WITH_A_USERS_DAEMON = ("lifecycle", "exec", "ports", "networks", "changes", "build_run")
# The markers of what takes minutes: it runs in CI, and where an argument names a file with such tests, or its folder.
MINUTES = ("guest", "seldom")
# Seconds: a test that hangs is a failure with a stack, not a run that never ends. The longest makes the one file of the
# engine, which takes two minutes beside other tests when the machine is at its slowest.
HANG = "--timeout=300"
# Programs that are unpacked below the cache, and the packages that have one, the first that there is: to install
# docker.io would start a daemon on this machine.
UNPACKED = {
    "docker": ("docker-cli", "docker.io"),
    "dockerd": ("docker.io",),
    "containerd": ("containerd",),
    "runc": ("runc",),
    "qemu-aarch64-static": ("qemu-user-static", "qemu-user"),
    "newuidmap": ("uidmap",),
    "pasta": ("passt",),
    "slirp4netns": ("slirp4netns",),
    "zsh": ("zsh",),
    "fish": ("fish",),
    "sshd": ("openssh-server",),
    "mkfs.btrfs": ("btrfs-progs",),
    "iptables-nft-save": ("iptables",),
}
# What is unpacked even where the host has one, for the tests are about Debian's.
DEBIANS = frozenset({"docker"})
# Packages that one of these cannot do without, where Debian has them.
WITH_IT = {
    "zsh": ("zsh-common",),
    "fish": ("fish-common", "libpcre2-32-0"),
    "openssh-server": ("libwrap0",),
    "iptables": ("libip4tc2", "libip6tc2", "libxtables12", "libmnl0", "libnftnl11")
    + ("libnetfilter-conntrack3", "libnfnetlink0"),
}
# What the machine's Go builds, in words.
BUILT = {
    f"compose {compose.VERSION} and its buildx": compose.PROGRAMS,
    f"buildx {buildx.VERSION}": buildx.PROGRAMS,
    f"buildctl {buildctl.VERSION}": buildctl.PROGRAMS,
    "gVisor's runsc": gvisor.PROGRAMS,
    "a program with Go's regexp": goregexp.PROGRAMS,
}
FUZZER = "atheris>=2.3"
# libFuzzer's library has the version of its compiler in its name.
FUZZERS_OF_C = (("clang", "libclang-rt-14-dev"), ("clang", "libclang-rt-19-dev"))


@dataclass(frozen=True)
class Need:
    """Something the tests use: how to see that it is there, and which Debian packages bring it."""

    packages: tuple[str, ...]
    why: str
    present: Callable[[], bool]


def program(name: str) -> Callable[[], bool]:
    """Whether a program is on the PATH."""
    return lambda: shutil.which(name) is not None


def static_busybox() -> bool:
    """Whether the host's busybox needs no shared library: without PT_INTERP it has no interpreter's name in it."""
    path = shutil.which("busybox")
    if path is None:
        return False
    with open(path, "rb") as source:
        return b"/ld-linux" not in source.read(4096) and b"/ld-musl" not in source.read(4096)


def headers() -> bool:
    """Whether this interpreter's C headers are there, which cffi's generated code includes."""
    return os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))


def pip_in_venv() -> bool:
    """Whether `python -m venv` can bring pip; Debian keeps that in a package of its own."""
    return importlib.util.find_spec("ensurepip") is not None and importlib.util.find_spec("venv") is not None


NEEDS = (
    Need(("python3-venv",), "the virtual environment", pip_in_venv),
    Need(("python3-dev",), "building _muxer", headers),
    Need(("gcc", "libc6-dev"), "building _muxer", program("gcc")),
    Need(("musl-tools",), "the muxer with another C library", program("musl-gcc")),
    Need(("busybox-static",), "the container's programs", static_busybox),
    Need(("docker-registry",), "pulling images", program("docker-registry")),
    Need(("iproute2",), "the daemon's own network", program("ip")),
    Need(("util-linux",), "the daemon's own namespaces", program("nsenter")),
    Need(("nftables",), "the kernel's rules as others see them", program("nft")),
    Need(("curl",), "curl as a client", program("curl")),
    Need(("skopeo",), "images made by others", program("skopeo")),
    Need(("umoci",), "layers unpacked by others", program("umoci")),
    Need(("openssl",), "certificates, and tokens for registries", program("openssl")),
    Need(("libzstd1",), "zstd layers", lambda: ctypes.util.find_library("zstd") is not None),
    Need(("podman",), "archives for others and from them", program("podman")),
    Need(("libdevmapper1.02.1",), "dockerd", lambda: ctypes.util.find_library("devmapper") is not None),
    Need(("libseccomp2",), "libseccomp's verdicts", lambda: ctypes.util.find_library("seccomp") is not None),
    Need(("docker-compose",), "compose 1.29", program("docker-compose")),
    Need(("debootstrap",), "building the guest", program("debootstrap")),
    Need(("e2fsprogs",), "the guest's disk", program("mke2fs")),
    Need(("qemu-utils",), "a boot's copy of the guest's disk", program("qemu-img")),
    *(
        Need((each.package,), "booting the guest", program(each.qemu[0]))
        for name, each in MACHINES.items()
        if name == platform.machine()
    ),
)


def say(text: str) -> None:
    """One line about what is being done, at once."""
    print(f"tests: {text}", file=sys.stderr, flush=True)


def run(*argv: str | Path, **options: object) -> None:
    """Run a command of the set-up; its failure ends the run."""
    status = subprocess.run([str(part) for part in argv], **options).returncode
    if status:
        sys.exit(f"tests: {' '.join(map(str, argv))} failed with {status}")


def is_debian() -> bool:
    """Whether this is Debian or one of its children."""
    return os.path.exists("/etc/debian_version") and shutil.which("apt-get") is not None


def apt(*argv: str) -> None:
    """Run apt-get without a question."""
    run("apt-get", "-qq", "-y", *argv, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, stdout=sys.stderr)


def candidate(package: str) -> bool:
    """Whether apt could install this package."""
    shown = subprocess.run(["apt-cache", "policy", package], capture_output=True, text=True).stdout
    return "Candidate:" in shown and "Candidate: (none)" not in shown


def install_packages() -> None:
    """Install what is missing when this is root on Debian; elsewhere say what is missing and why it matters."""
    missing = [need for need in NEEDS if not need.present()]
    unpacked = [
        name
        for name in UNPACKED
        if not any((path / name).exists() for path in PROGRAMS) and (name in DEBIANS or not program(name)())
    ]
    if not missing and not unpacked and redis.complete(CACHE):
        return
    if not (is_debian() and os.geteuid() == 0):
        for need in missing:
            say(f"without {' '.join(need.packages)} ({need.why}); tests that need it are skipped")
        for name in unpacked:
            say(f"without {name}; tests that need it are skipped")
        if not redis.complete(CACHE):
            say("without a Redis; tests that need it are skipped")
        return
    apt("update")
    packages = [package for need in missing for package in need.packages]
    if packages:
        say(f"installing {' '.join(packages)}")
        apt("install", "--no-install-recommends", *packages)
    found = {name: next((package for package in UNPACKED[name] if candidate(package)), None) for name in unpacked}
    for name in [name for name in unpacked if found[name] is None]:
        say(f"without {name}: Debian has none for this machine")
    chosen = {package for package in found.values() if package}
    needed = {more for package in chosen for more in WITH_IT.get(package, ()) if candidate(more)}
    unpack(sorted(chosen | needed))
    if not redis.complete(CACHE):
        say(f"unpacking {' '.join(redis.PACKAGES)}")
        redis.make(CACHE)


def install_fuzzer_of_c() -> None:
    """clang with libFuzzer, for the long job `c` alone, when this is root on Debian; elsewhere that job says so."""
    if shutil.which("clang") or not (is_debian() and os.geteuid() == 0):
        return
    apt("update")
    for packages in FUZZERS_OF_C:
        if all(map(candidate, packages)):
            say(f"installing {' '.join(packages)}")
            apt("install", "--no-install-recommends", *packages)
            return


def unpack(packages: Sequence[str]) -> None:
    """Put the programs of Debian packages below the cache, without installing them."""
    for package in packages:
        say(f"unpacking {package}")
        LOCAL.mkdir(parents=True, exist_ok=True)
        run("apt-get", "-qq", "download", package, cwd=LOCAL, stdout=sys.stderr)
        for archive in LOCAL.glob(f"{package}_*.deb"):
            run("dpkg-deb", "--extract", archive, LOCAL)
            archive.unlink()
    for name in ("bin", "sbin", "lib"):  # some packages still have files there; elsewhere these are links into /usr
        if (LOCAL / name).is_dir():
            (LOCAL / "usr" / name).mkdir(parents=True, exist_ok=True)
            run("cp", "-a", f"{LOCAL / name}/.", LOCAL / "usr" / name)


def environment() -> Path:
    """The virtual environment for this interpreter and these requirements, made when it is not there; its python."""
    mark = f"{sys.executable} {sys.version} {REQUIREMENTS.read_text()}"
    root = CACHE / hashlib.sha256(mark.encode()).hexdigest()[:16]
    python = root / "bin" / "python"
    if (root / "complete").exists():
        return python
    say(f"making the virtual environment {root}")
    run(sys.executable, "-m", "venv", "--clear", root)
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", REQUIREMENTS)
    (root / "complete").touch()
    return python


def set_up() -> Path:
    """All that the tests need and that is missing; the python of their environment."""
    with contextlib.ExitStack() as stack:
        finishing = {}
        for what, programs in BUILT.items():
            reason = "" if programs.complete(CACHE) else programs.unable()
            if reason:
                say(f"without {what}, for {reason}; tests that need it are skipped")
            elif not programs.complete(CACHE):
                say(f"building {what}, which takes some minutes")
                finishing[what] = stack.enter_context(programs.building(CACHE))
        install_packages()
        python = environment()
        if not zig.complete(CACHE):
            say(f"downloading Zig {zig.VERSION}")
            if reason := zig.make(CACHE, python):
                say(f"without Zig; tests that need it are skipped:\n{reason}")
        for what, finish in finishing.items():
            if reason := finish():
                say(f"without {what}; tests that need it are skipped:\n{reason}")
    return python


def workers(arguments: Sequence[str]) -> list[str]:
    """Three workers for each processor, for most of a test is waiting, unless the arguments say how many.

    A file's tests are on one worker; the files that take longest are begun first (see conftest).
    """
    options = ("-n", "--numprocesses", "-p", "--pdb", "--co")
    if any(argument.startswith(options) for argument in arguments):
        return []
    return ["-n", str((os.cpu_count() or 1) * 3), "--dist", "loadfile", "--no-loadscope-reorder"]


def install_guest() -> None:
    """Build the guest, when this is root on Debian; elsewhere say that there is none."""
    if guest.complete(CACHE):
        return
    reason = guest.unable() or ("" if is_debian() and os.geteuid() == 0 else "it takes root on Debian")
    if reason:
        say(f"without a guest: {reason}; tests that need it are skipped")
        return
    say("building the guest, which takes some three minutes")
    try:
        guest.build(CACHE)
    except subprocess.CalledProcessError:  # one of some two hundred downloads may have failed
        say("building the guest once more")
        guest.build(CACHE)


def install_far_guest() -> None:
    """Build the guest of another architecture, when this is root on Debian; elsewhere say that there is none."""
    if farguest.complete(CACHE) or platform.machine() == "aarch64":
        return
    if is_debian() and os.geteuid() == 0 and not program(farguest.MACHINE.qemu[0])():
        unpack([farguest.MACHINE.package])  # its libraries are those of the other qemu, which is installed
    reason = farguest.unable() or ("" if is_debian() and os.geteuid() == 0 else "it takes root on Debian")
    if reason:
        say(f"without a guest of another architecture: {reason}; tests that need it are skipped")
        return
    say("building the guest of another architecture, which takes a minute")
    farguest.build(CACHE)


def with_marker(marker: str) -> list[str]:
    """The test files in which a marker stands: to collect all others takes six seconds."""
    files = sorted((PROJECT / "tests").rglob("test_*.py"))
    return [str(path.relative_to(PROJECT)) for path in files if f"pytest.mark.{marker}" in path.read_text()]


def is_named(marker: str, arguments: Sequence[str]) -> bool:
    """Whether an argument is part of the path of a file with this marker, or has it in it."""
    words = [word for word in arguments if word and not word.startswith("-")]
    return any(word in file or file in word for file in with_marker(marker) for word in words)


@dataclass(frozen=True)
class Part:
    """One run of pytest: what it makes, in words; its arguments; what it has in its environment."""

    what: str
    words: Sequence[str]
    variables: Mapping[str, str] = field(default_factory=dict)


def parts(beside: Sequence[str], arguments: Sequence[str]) -> Iterator[list[Part]]:
    """The parts of a run, those that run at the same time in one list.

    They are the tests that can run beside others, some of them with the Python muxer or a user's daemon too, those that
    measure time, and what a guest shows.
    """
    in_ci = not arguments and os.environ.get("CI", "").lower() in ("1", "true")
    made = [marker for marker in MINUTES if in_ci or is_named(marker, arguments)]
    left = "not guest" if "seldom" in made else "not guest and not seldom"
    common = f"not alone and {left}"
    first = [Part("the tests that can run beside each other", [*beside, "-m", common, *arguments])]
    if not arguments:
        files = [f"tests/api/test_{name}.py" for name in WITH_THE_PYTHON_MUXER]
        again = "a tenth of tests/api with the Python muxer"
        first.append(Part(again, [*beside, "-n", "2", "-m", common, *files], {"ENGINE_TEST_MUXER": "python"}))
        files = [f"tests/api/test_{name}.py" for name in WITH_A_USERS_DAEMON]
        again = "some of tests/api with a user's daemon"
        first.append(Part(again, [*beside, "-n", "2", "-m", common, *files], {"ENGINE_TEST_USER": "1"}))
    yield first
    files = arguments or with_marker("alone")
    yield [Part("the tests that measure time, alone", ["-m", f"alone and {left}", *files])]
    if "guest" in made:
        install_guest()
        yield [Part("what a guest shows", ["-m", "guest", *arguments])]


def run_together(command: Sequence[str], together: Sequence[Part]) -> list[int]:
    """The exit statuses of parts that run at the same time; what all but the first say is shown when all have ended."""
    with contextlib.ExitStack() as held:
        running = []
        for part in together:
            out = held.enter_context(tempfile.TemporaryFile()) if running else None
            say(part.what)
            process = subprocess.Popen(
                [*command, *part.words], env={**os.environ, **part.variables}, stdout=out, stderr=out
            )
            running.append((process, out))
        statuses = [process.wait() for process, _ in running]
        for part, (_, out) in zip(together, running, strict=True):
            if out is not None:
                out.seek(0)
                say(f"of {part.what}:")
                shutil.copyfileobj(out, sys.stdout.buffer)
                sys.stdout.flush()
    return statuses


def in_parts(command: Sequence[str], beside: Sequence[str], arguments: Sequence[str]) -> int:
    """Make all parts; pytest's exit status, the first that is a failure."""
    statuses = [status for together in parts(beside, arguments) for status in run_together(command, together)]
    if all(status == NO_TESTS for status in statuses):
        return NO_TESTS
    return next((status for status in statuses if status not in (SUCCESS, NO_TESTS)), SUCCESS)


def main(arguments: Sequence[str]) -> None:
    """Set up, then have pytest run the tests."""
    python = set_up()
    os.chdir(PROJECT)
    os.environ["PATH"] = os.pathsep.join((str(python.parent), os.environ.get("PATH", os.defpath), *map(str, PROGRAMS)))
    # Some thousand processes import the engine in one run, and without its compiled files each would compile it anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if shutil.which("gcc"):
        run(python, "-m", "_muxer.build")
    else:
        say("without a C compiler; the engine runs on the Python twin of _muxer")
    if "--long" in arguments:
        install_fuzzer_of_c()
        if subprocess.run([python, "-c", "import atheris"], capture_output=True).returncode:
            run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", FUZZER)
        rest = [argument for argument in arguments if argument != "--long"]
        os.execv(python, [str(python), "-m", "tests.long", *rest])
    command = [str(python), "-m", "pytest", HANG]
    if "--guests" in arguments:
        install_guest()
        install_far_guest()
        os.environ["ENGINE_GUESTS"] = "all"
        rest = [argument for argument in arguments if argument != "--guests"]
        os.execv(python, [*command, "tests/guests", *rest])
    beside = workers(arguments)
    if not beside or any(argument.startswith("-m") for argument in arguments):
        sys.stderr.flush()
        os.execv(python, [*command, *beside, *arguments])
    sys.exit(in_parts(command, beside, arguments))


if __name__ == "__main__":
    main(sys.argv[1:])
