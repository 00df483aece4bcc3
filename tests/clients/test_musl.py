"""The engine on a host of musl and BusyBox, as its user has it: from a clone, in one file, by pip, and without C.

Made by `python3 -m tests --long musl` alone (see conftest), which builds that host first (`setup/musl.py`). It has no
program but BusyBox and Python. Its daemons are reached from here by their sockets.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.__main__ import CACHE
from tests.harness import daemon as harness
from tests.harness import execs, rootfs
from tests.harness.daemon import PROJECT, Daemon
from tests.harness.fixtures import World, running
from tests.harness.leaks import TOKEN_VARIABLE
from tests.harness.listening import until
from tests.harness.namespaces import Namespaces
from tests.harness.sleeping import Listening
from tests.setup import musl, zig

pytestmark = pytest.mark.root
PYTHON = "/usr/bin/python3"
IMAGE = Path(harness.PYTHON).parents[2]
TARGET = musl.NAME
NOT_SOURCE = shutil.ignore_patterns(
    *(".git", "__pycache__", "*.egg-info", "*.so", ".*_cache", ".benchmarks", "targets", ".hypothesis")
)
# After the first command the host's root is an overlay of its own; the machine's /tmp is shown there at the same place.
KEEPER = """
set -e
mount -t overlay -o lowerdir={image},upperdir={place}/upper,workdir={place}/work none {place}/root
cd {place}/root
for each in proc sys dev; do mount --rbind /$each $each; done
mount -t tmpfs none run
mount -t tmpfs none tmp
mount -t tmpfs none var
mkdir -p .{shown}
mount --bind {shown} .{shown}
ip link set lo up
pivot_root . mnt
exec chroot . /bin/sh -c 'umount -l /mnt && echo ready && exec sleep 86400'
"""


class Machine(Namespaces):
    """A host of musl and BusyBox. place: an empty directory for its root; shown: a directory that it has too"""

    def __init__(self, place: Path, shown: Path) -> None:
        for name in ("upper", "work", "root"):
            (place / name).mkdir(parents=True)
        self.root = place / "root"
        super().__init__(KEEPER.format(image=IMAGE, place=place, shown=shown))


class Small(Daemon):
    """A daemon there. start: the words before `daemon`; tree: what is in PYTHONPATH, if anything"""

    words: tuple[str, ...] = (PYTHON, "-m", "engine")
    tree = ""

    @property
    def environment(self) -> dict[str, str]:
        """That of such a host, with a client's variables."""
        shown = {"ENGINE_HOST": self.url, "HOME": "/root", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        token = {name: value for name, value in os.environ.items() if name == TOKEN_VARIABLE}
        return shown | token | ({"PYTHONPATH": self.tree} if self.tree else {})

    def arguments(self) -> list[str]:
        """The daemon's command line."""
        _, _, _, *rest = super().arguments()
        return [*self.words, *rest]

    def inside(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a command on its host."""
        command = self.namespaces.command(argv)
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=300)

    def engine(self, *words: str) -> str:
        """What the small client says there, which must succeed."""
        done = self.inside(*self.words, *words)
        assert done.returncode == 0, done
        return done.stdout


@pytest.fixture(scope="module")
def machine(world: World) -> Iterator[Machine]:
    """The host, built by the long job; it has gone when the file's tests are done."""
    with Machine(world.directory(), world.root) as made:
        yield made


@pytest.fixture(scope="module")
def clone(world: World) -> Path:
    """A clone of this tree in which the C muxer was built for musl, and for no other host."""
    if not zig.complete(CACHE):
        pytest.skip("there is no Zig: python3 -m tests")
    tree = world.directory() / "clone"
    shutil.copytree(PROJECT, tree, ignore=NOT_SOURCE)
    environment = {**os.environ, **zig.variables(CACHE)}
    command = [sys.executable, "-m", "_muxer.cross", TARGET]
    subprocess.run(command, cwd=tree, env=environment, check=True, capture_output=True)
    for path in (tree / "_muxer/targets" / TARGET).iterdir():
        shutil.copy2(path, tree / "_muxer")
    return tree


@pytest.fixture(scope="module")
def file(clone: Path) -> Path:
    """The engine in one file, written on this host for that one."""
    command = [sys.executable, "-m", "engine", "bundle", "-o", clone.parent / "engine.pyz"]
    subprocess.run(command, cwd=clone, check=True, capture_output=True)
    return clone.parent / "engine.pyz"


def small(world: World, machine: Machine, tree: Path | str, *options: str) -> Small:
    """A daemon from a clone, not started."""
    daemon = Small(world.directory(), machine, options)
    daemon.tree = str(tree)
    return daemon


@pytest.fixture(scope="module")
def cloned(world: World, machine: Machine, clone: Path) -> Iterator[Small]:
    """A daemon that runs from the clone, with busybox."""
    with running(small(world, machine, clone)) as daemon:
        daemon.engine("image-from-host", "busybox:latest", "busybox", "sh", "cat", "sleep", "ping", "nslookup", "nc")
        yield daemon


def muxer(daemon: Daemon) -> str:
    """Which muxer a daemon has."""
    return next(text for name, text in daemon.request("GET", "/info").json()["DriverStatus"] if name == "Muxer")


def test_the_host_is_of_musl(cloned: Small) -> None:
    said = cloned.inside(PYTHON, "-c", "import sys; print(*sys.builtin_module_names, sep='\\n'); import ssl, sqlite3")
    assert said.returncode == 0, said
    assert "ld-musl" in Path(f"/proc/{cloned.pid}/maps").read_text()
    assert cloned.inside("readlink", "/bin/mount").stdout == "/bin/busybox\n"


def test_the_check_finds_all_that_is_needed(cloned: Small) -> None:
    done = cloned.inside(PYTHON, "-m", "engine", "check")
    assert (done.returncode, done.stderr) == (0, ""), done
    assert "unknown  " not in done.stdout, done.stdout
    for row in (r"C muxer +built, and loads", r"zstd +libzstd", r"overlay +", r"docker-init +/"):
        assert re.search(rf"^ok +{row}", done.stdout, re.MULTILINE), done.stdout


def test_the_demo_works(cloned: Small) -> None:
    done = cloned.inside(PYTHON, "-m", "engine", "demo")
    assert (done.returncode, done.stderr) == (0, ""), done
    assert "stream 1: hello from a container" in done.stdout and "its directory is gone" in done.stdout


def test_the_daemon_has_the_c_muxer(cloned: Small) -> None:
    assert muxer(cloned) == "c"


def test_daily_use(cloned: Small) -> None:
    """By the small client: run, logs, exec, stop, kill, cp, volumes, stats, top, save and load."""
    engine = cloned.engine
    assert engine("run", "--rm", "busybox", "sh", "-c", "echo hi") == "hi\n"
    piped = 'echo hello | "$@" run -i --rm busybox cat'
    assert cloned.inside("sh", "-c", piped, "sh", *cloned.words).stdout == "hello\n"
    engine(
        "run",
        "-d",
        "--name",
        "one",
        "-v",
        "kept:/kept",
        "-m",
        "32m",
        "busybox",
        "sh",
        "-c",
        "echo there >/kept/file; echo said; exec sleep 600",
    )
    until(lambda: engine("logs", "one") == "said\n")
    assert engine("exec", "one", "cat", "/kept/file") == "there\n"
    assert "sleep 600" in engine("top", "one")
    assert "MiB" in engine("stats", "--no-stream", "one")
    engine("stop", "-t", "1", "one")
    assert engine("inspect", "-f", "{{.State.Status}}", "one") == "exited\n"
    assert engine("cp", "one:/kept/file", "-")
    engine("rm", "one")
    assert engine("run", "--rm", "-v", "kept:/kept", "busybox", "cat", "/kept/file") == "there\n"
    engine("volume", "rm", "kept")
    engine("save", "-o", "/tmp/saved.tar", "busybox")
    assert "busybox:latest" in engine("load", "-i", "/tmp/saved.tar")


def test_a_build(cloned: Small) -> None:
    cloned.inside(
        "sh",
        "-c",
        "mkdir -p /tmp/context && printf '%s' \"$0\" >/tmp/context/Dockerfile",
        "FROM busybox\nRUN echo built > /it\nCOPY Dockerfile /\nCMD cat /it\n",
    )
    cloned.engine("build", "-t", "it", "/tmp/context")
    assert cloned.engine("run", "--rm", "it") == "built\n"


def test_names_and_a_published_port(cloned: Small) -> None:
    """Of a network with a resolver; a client of the host is led to the container."""
    cloned.engine("network", "create", "--subnet", "10.93.0.0/24", "near")
    serve = "while :; do echo served | nc -l -p 80; done"
    cloned.engine(
        "run", "-d", "--name", "web", "--network", "near", "-p", "127.0.0.1:8093:80", "busybox", "sh", "-c", serve
    )
    assert "web" in cloned.engine("run", "--rm", "--network", "near", "busybox", "ping", "-c", "1", "-W", "5", "web")

    def answer() -> bytes:
        with cloned.namespaces.socket() as client:
            client.connect(("127.0.0.1", 8093))
            return client.recv(100)

    assert until(answer) == b"served\n"
    cloned.engine("rm", "-f", "web")
    cloned.engine("network", "rm", "near")


def test_a_port_that_another_program_has_is_refused_in_dockers_words(cloned: Small) -> None:
    """musl says `Address in use`."""
    with cloned.namespaces.socket() as other:
        other.bind(("127.0.0.1", 8095))
        other.listen()
        done = cloned.inside(*cloned.words, "run", "--rm", "-p", "127.0.0.1:8095:80", "busybox", "true")
    assert done.returncode == 125 and "address already in use" in done.stderr, done


def test_containers_outlive_a_killed_daemon(cloned: Small) -> None:
    """Their output, attached clients and exit codes too."""
    one = cloned.create("sh", "-c", "while [ ! -e /go ]; do echo tick; sleep 0.05; done; exit 7")
    cloned.begin(one)
    cloned.kill9()
    cloned.start()
    assert cloned.inspect(one)["State"]["Running"]
    said = len(cloned.logs(one))
    until(lambda: len(cloned.logs(one)) > said)
    assert execs.run(cloned, one, "sh", "-c", ">/go").code == 0
    assert cloned.wait(one) == 7
    cloned.remove(one)


def test_deeply_nested_bodies_end_in_words(cloned: Small) -> None:
    """A thread of musl has a stack of 128 KB, unless it is asked for more."""
    for opening in ("[", '{"a":'):
        answer = cloned.request("POST", "/containers/create", f'{{"Image": {opening * 50_000}'.encode(), checked=False)
        assert answer.status == 400, answer
    depth = 90
    body = f'{{"Image": "busybox", "HostConfig": {"[" * depth}{"]" * depth}}}'
    assert cloned.request("POST", "/containers/create", body.encode(), checked=False).status == 400
    assert cloned.request("GET", "/_ping").status == 200


def test_every_thread_of_the_daemon_has_room_on_its_stack(cloned: Small) -> None:
    """From proc_pid_syscall(5): how far it is from where the thread waits to the lower end of its mapping."""
    lines = Path(f"/proc/{cloned.pid}/maps").read_text().splitlines()
    spans = [tuple(int(end, 16) for end in line.split()[0].split("-")) for line in lines]
    rooms = {}
    for thread in os.listdir(f"/proc/{cloned.pid}/task"):
        words = Path(f"/proc/{cloned.pid}/task/{thread}/syscall").read_text().split()
        if int(thread) != cloned.pid and len(words) > 2:  # else it runs
            pointer = int(words[-2], 16)
            rooms[thread] = next(pointer - low for low, high in spans if low <= pointer < high)
    assert len(rooms) >= 2 and min(rooms.values()) > 200 * 1024, rooms


def test_it_sleeps_and_wakes(world: World, machine: Machine, clone: Path) -> None:
    daemon = small(world, machine, clone, "--idle-exit", "1")
    sleeping = Listening(daemon)
    try:
        for _ in range(2):
            assert daemon.request("GET", "/_ping").status == 200
            sleeping.sleeps()
        daemon.import_image(rootfs.busybox(), "busybox:latest")
        one = daemon.create(
            "sh",
            "-c",
            "sleep 3; exit 3",
            HostConfig={"NetworkMode": "none", "RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 1}},
        )
        daemon.begin(one)
        sleeping.sleeps()
        until(lambda: daemon.inspect(one)["RestartCount"] == 1)
        daemon.remove(one)
    finally:
        sleeping.close()


def test_the_one_file_has_its_muxer_in_memory(world: World, machine: Machine, file: Path) -> None:
    """Loaded from a memfd by musl's dlopen; and the sleeper, which starts the daemon from the file."""
    daemon = small(world, machine, "")
    daemon.words = (PYTHON, str(file))
    with running(daemon):
        assert muxer(daemon) == "c"
        maps = Path(f"/proc/{daemon.pid}/maps").read_text()
        assert "/memfd:engine-muxer" in maps and "_native" not in maps
        daemon.import_image(rootfs.busybox(), "busybox:latest")
        assert daemon.engine("run", "--rm", "--init", "busybox", "sh", "-c", "echo hi; exit 0") == "hi\n"
        assert "built, and loads" in daemon.engine("check")
    assert "hello from a container" in daemon.engine("demo")


def test_a_wheel_is_installed_by_pip(world: World, machine: Machine, clone: Path, tmp_path: Path) -> None:
    """The wheel for musl, and cffi's own; all from a directory."""
    wheels = clone.parent / "wheels"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    build = [*pip, "wheel", "--no-build-isolation", "--no-deps", "--no-index", "-w", wheels, clone]
    subprocess.run(build, check=True, capture_output=True, env={**os.environ, "ENGINE_TARGET": TARGET})
    (wheel,) = wheels.glob("*musllinux*.whl")
    daemon = small(world, machine, "")
    assert daemon.inside(PYTHON, "-m", "ensurepip").returncode == 0
    at = ("--target", "/opt/installed", "--no-index", "--find-links", "/opt/wheels")
    done = daemon.inside(PYTHON, "-m", "pip", "--disable-pip-version-check", "install", *at, str(wheel))
    assert done.returncode == 0, done
    daemon.tree = "/opt/installed"
    with running(daemon):
        assert muxer(daemon) == "c"
        assert "/opt/installed/_muxer/_native.abi3.so" in Path(f"/proc/{daemon.pid}/maps").read_text()
        daemon.import_image(rootfs.busybox(), "busybox:latest")
        assert (
            daemon.inside("env", "sh", "-c", "PATH=/opt/installed/bin:$PATH engine run --rm busybox echo hi").stdout
            == "hi\n"
        )


def test_without_c(world: World, machine: Machine, clone: Path) -> None:
    """Where Python has no cffi the engine says so, and does the same."""
    daemon = small(world, machine, clone)
    daemon.words = (PYTHON, "-S", "-m", "engine")
    with running(daemon):
        assert muxer(daemon) == "python"
        assert "muxer python (Python lacks cffi for the faster one in C" in daemon.log
        daemon.import_image(rootfs.busybox(), "busybox:latest")
        assert daemon.engine("run", "--rm", "-p", "8094:80", "busybox", "sh", "-c", "echo hi; exit 0") == "hi\n"
        one = daemon.create("sh", "-c", "read line; echo $line; sleep 600", OpenStdin=True, HostConfig={})
        daemon.begin(one)
        assert execs.run(daemon, one, "echo", "there").out == "there\n"
        daemon.kill9()
        daemon.start()
        assert daemon.inspect(one)["State"]["Running"]
        daemon.remove(one)
