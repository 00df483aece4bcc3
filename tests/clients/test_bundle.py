"""The engine in one file: everything that a clone does works from it, also when it was replaced meanwhile."""

import os
import re
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

import _muxer
from engine.daemon.buildkit import methods
from tests.api import building
from tests.api.networking import subnet
from tests.harness import execs, inplace, traps, users
from tests.harness.daemon import PROJECT, Daemon
from tests.harness.descriptors import open_links
from tests.harness.fixtures import World, running
from tests.harness.http import Connection
from tests.harness.listening import until
from tests.harness.pace import patient
from tests.harness.sleeping import Listening
from tests.harness.users import UID

pytestmark = [pytest.mark.root, pytest.mark.seldom]
MOST = 1_000_000


class Packed(Daemon):
    """A daemon that runs from one file, in a directory that has nothing of the engine."""

    file = Path()

    @property
    def environment(self) -> dict[str, str]:
        """Nothing in it leads to the tree of the tests."""
        return {name: value for name, value in super().environment.items() if name != "PYTHONPATH"}

    def arguments(self) -> list[str]:
        """The daemon's command line."""
        _, _, _, *rest = super().arguments()
        return ["env", f"--chdir={self.root}", sys.executable, str(self.file), *rest]

    def engine(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        """The client of the same file."""
        return self.command(sys.executable, str(self.file), *words, cwd=self.root)


def bundle(to: Path, tree: Path = PROJECT) -> Path:
    """Write the one file of a tree."""
    command = [sys.executable, "-m", "engine", "bundle", "-o", str(to)]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return to


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The one file of this tree."""
    return bundle(tmp_path_factory.mktemp("bundle") / "engine.pyz")


@pytest.fixture
def packed(world: World, file: Path) -> Iterator[Packed]:
    """A daemon that runs from a copy of the file."""
    daemon = Packed(world.directory(), world.namespaces)
    daemon.file = daemon.root / "engine.pyz"
    shutil.copy2(file, daemon.file)
    daemon.start()
    yield daemon
    daemon.close()


def children(pid: int) -> list[int]:
    """The process ids of a process's children."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def maps(pid: int) -> str:
    """What a process has mapped."""
    return Path(f"/proc/{pid}/maps").read_text()


def test_it_is_small_and_makes_itself_again(file: Path, tmp_path: Path) -> None:
    """Byte for byte, in another process and from what is in the file alone: no tree is near."""
    assert file.stat().st_size <= MOST and os.access(file, os.X_OK)
    command = [sys.executable, str(file), "bundle", "-o", "made.pyz"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == 0
    assert (tmp_path / "made.pyz").read_bytes() == file.read_bytes()


def test_it_runs_by_itself_and_as_the_daemons_name(file: Path, tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"]}

    def says(*command: str | Path) -> str:
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    (tmp_path / "engined").symlink_to(file)
    assert says(file, "--version") == says(tmp_path / "engined", "--version")
    assert says(file, "--help").startswith("Usage:  engine [OPTIONS] COMMAND")
    assert says(tmp_path / "engined", "--help").startswith("Usage: engine daemon")
    (tmp_path / "dockerd").symlink_to(file)
    assert says(tmp_path / "dockerd", "--help").startswith("Usage: dockerd [OPTIONS]")
    assert says(tmp_path / "dockerd", "--version").startswith("Docker version ")
    assert f"ExecStart={sys.executable} {file} daemon -H fd://" in says(sys.executable, file, "install-units", "--show")


def test_a_link_to_the_file_is_a_dockerd(world: World, file: Path) -> None:
    """With dockerd's socket, pid file and configuration file, and nothing said."""
    place = world.directory()
    shutil.copy2(file, place / "engine.pyz")
    prepare = ("mkdir /etc/docker", """echo '{"labels": ["a=b"], "iptables": false}' > /etc/docker/daemon.json""")
    dockerd = inplace.linked("dockerd", place / "engine.pyz")
    with inplace.running(world.machine(), place, dockerd, prepare) as root:
        with Connection(root / "run/docker.sock") as connection:
            assert connection.request("GET", "/info").json()["Labels"] == ["a=b"]


def test_containers_run_and_the_muxer_is_in_memory(packed: Packed) -> None:
    packed.import_busybox()
    done = packed.engine("run", "--rm", "busybox", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, b"out\n", b"err\n")
    one = packed.create("sleep", "1000")
    packed.begin(one)
    assert execs.run(packed, one, "echo", "there").out == "there\n"
    info = packed.request("GET", "/info").json()
    if _muxer.built():
        assert ["Muxer", "c"] in info["DriverStatus"]
        assert "/memfd:engine-muxer" in maps(packed.pid) and "_native.abi3.so" not in maps(packed.pid)
    packed.remove(one)


def test_a_link_to_the_file_is_what_docker_starts_over_ssh(packed: Packed, tmp_path: Path) -> None:
    """`docker -H ssh://host` runs `docker system dial-stdio` there."""
    (tmp_path / "docker").symlink_to(packed.file)
    asked = b"GET /_ping HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n\r\n"
    said = packed.command(str(tmp_path / "docker"), "system", "dial-stdio", input=asked)
    assert (said.returncode, said.stderr) == (0, b"")
    assert said.stdout.startswith(b"HTTP/1.1 200 OK\r\n") and said.stdout.endswith(b"\r\n\r\nOK")


def test_docker_init_is_in_it(packed: Packed) -> None:
    packed.import_busybox()
    one = packed.create(
        "sh", "-c", "cat /proc/1/cmdline; echo; sleep 60", HostConfig={"NetworkMode": "none", "Init": True}
    )
    packed.begin(one)
    assert until(lambda: packed.logs(one)).endswith(
        b"/sbin/docker-init\0--\0sh\0-c\0cat /proc/1/cmdline; echo; sleep 60\0\n"
    )
    assert (packed.data_root / "docker-init").stat().st_mode & 0o777 == 0o755
    packed.remove(one)


@pytest.mark.skipif(not _muxer.built(), reason="the sleeper is not built: python3 -m _muxer.build")
def test_the_sleeper_is_in_it(world: World, file: Path) -> None:
    """`engine listen` runs it from memory, and it starts the daemon from the file."""
    daemon = Packed(world.directory(), world.namespaces, ("--idle-exit", "1"))
    daemon.file = daemon.root / "engine.pyz"
    shutil.copy2(file, daemon.file)
    sleeping = Listening(daemon)
    try:
        assert "/memfd:engine-sleeper" in os.readlink(f"/proc/{sleeping.process.pid}/exe")
        for _ in range(2):
            assert daemon.request("GET", "/_ping").status == 200
            sleeping.sleeps()
    finally:
        sleeping.close()


def test_it_is_not_sprung(world: World, file: Path) -> None:
    """`test_traps` says more."""
    assert traps.sprung(world, [sys.executable, str(file)]) == set()


def test_what_settles_holds_no_file_of_the_engines(packed: Packed) -> None:
    """And still has all that it needs: the resolver, whose code the spawner keeps, answers."""
    packed.import_busybox()
    (spawner,) = children(packed.pid)
    assert packed.request("POST", "/networks/create", {"Name": "near", **subnet("10.92.0.0/24")}).status == 201
    one = packed.create("sleep", "1000", name="first", HostConfig={"NetworkMode": "near"})
    packed.begin(one)
    assert execs.run(packed, one, "ping", "-c", "1", "-W", "5", "first").code == 0
    assert str(packed.file) in open_links(packed.pid)
    for pid in (spawner, *children(spawner)):
        assert not [each for each in open_links(pid) if str(packed.file) in each], pid
    packed.remove(one)


def test_a_daemon_stays_of_its_version_when_the_file_is_replaced(packed: Packed, file: Path, tmp_path: Path) -> None:
    """Its next spawner too, and what it has not loaded yet; the next daemon adopts what this one has started."""
    packed.import_busybox()
    one = packed.create("sh", "-c", "while :; do echo tick; sleep 0.05; done")
    packed.begin(one)
    tree = tmp_path / "tree"
    shutil.copytree(PROJECT / "engine", tree / "engine")
    shutil.copytree(PROJECT / "_muxer", tree / "_muxer")
    declares = tree / "engine/settings/advertised.py"
    declares.write_text(re.sub('^VERSION = ".*"$', 'VERSION = "9.9.9"', declares.read_text(), flags=re.MULTILINE))
    newer = bundle(tmp_path / "newer.pyz", tree)
    shutil.copy2(newer, packed.root / "engine.new")
    os.replace(packed.root / "engine.new", packed.file)
    (spawner,) = children(packed.pid)
    os.kill(spawner, 9)
    # Networks, volumes and health checks have not been loaded before.
    two = packed.create("sleep", "1000", HostConfig={"NetworkMode": "bridge", "Binds": ["kept:/kept"]})
    packed.begin(two)
    assert "another is started" in packed.log
    assert packed.request("GET", "/version").json()["Components"][0]["Version"] != "9.9.9"
    packed.kill9()
    packed.start()
    assert packed.request("GET", "/version").json()["Components"][0]["Version"] == "9.9.9"
    for each in (one, two):
        assert packed.inspect(each)["State"]["Running"]
    said = len(packed.logs(one))
    until(lambda: len(packed.logs(one)) > said)
    for each in (one, two):
        packed.remove(each)


def test_a_file_that_is_written_over_is_said_and_containers_run_on(packed: Packed, file: Path) -> None:
    packed.import_busybox()
    one = packed.create("sh", "-c", "while :; do echo tick; sleep 0.05; done")
    packed.begin(one)
    time.sleep(1)  # for 0.3 s after its start a daemon holds what it has read (`main._FIRST_ANSWERS`)
    packed.file.write_bytes(b"\0" * packed.file.stat().st_size)
    answer = packed.request("POST", "/networks/create", {"Name": "never"}, checked=False)
    assert answer.status == 500
    assert "was changed while the engine ran: start the engine again" in packed.log
    packed.kill9()
    shutil.copy2(file, packed.file)
    packed.start()
    said = len(packed.logs(one))
    until(lambda: len(packed.logs(one)) > said)
    packed.remove(one)


def test_the_demo_starts_its_daemon_from_the_file(file: Path, tmp_path: Path) -> None:
    command = [
        "unshare",
        "--net",
        "--mount",
        "sh",
        "-c",
        'ip link set lo up; exec "$@"',
        "sh",
        sys.executable,
        str(file),
    ]
    done = subprocess.run([*command, "demo"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hello from a container" in done.stdout


def test_a_user_has_the_demo_from_the_file(world: World, file: Path) -> None:
    """Its daemon is started by a descriptor of the file, and starts itself anew in the user's namespaces."""
    if not users.available():
        pytest.skip("needs newuidmap: apt-get install uidmap")
    mine = world.user_daemon(world.user_machine())
    own = shutil.copy2(file, mine.home / "engine.pyz")
    os.chown(own, UID, UID)
    command = mine.namespaces.command(mine.as_user(sys.executable, str(own), "demo"))
    environment = {name: value for name, value in mine.environment.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hello from a container" in done.stdout


def test_64_megabytes_are_enough(file: Path, tmp_path: Path) -> None:
    """For a daemon, its container and a client, with all files that they read: they are in a cgroup with this limit."""
    kinds = (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max"))
    found = next(((at, name) for at, name in kinds if os.path.exists(f"{at}/cgroup.procs")), None)
    if found is None:
        pytest.skip("needs cgroups")
    group, limit = Path(found[0], f"engine-test-{secrets.token_hex(4)}"), found[1]
    group.mkdir()
    try:
        if not (group / limit).exists():
            pytest.skip("needs the memory controller")
        (group / limit).write_text(str(64 << 20))
        script = 'echo $$ > "$0/cgroup.procs"; ip link set lo up; exec "$@"'
        command = ["unshare", "--net", "--mount", "sh", "-c", script, str(group), sys.executable, str(file), "demo"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "hello from a container" in done.stdout
    finally:
        until(lambda: not (group / "cgroup.procs").read_text())
        until(lambda: _removed(group))


def _removed(group: Path) -> bool:
    try:
        group.rmdir()
    except OSError:  # its last process has not been reaped, or a container's cgroup is still below it
        return False
    return True


def test_other_pythons_run_the_file(file: Path, tmp_path: Path) -> None:
    """They compile its sources, and have the C muxer only where they have cffi's library."""
    found = others()
    if not found:
        pytest.skip("needs another Python from 3.11 on, on the PATH or made by pyenv")
    for python in found:
        alone = ["unshare", "--net", "--mount", "sh", "-c", 'ip link set lo up; exec "$@"', "sh"]
        done = subprocess.run([*alone, python, str(file), "demo"], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, (python, done.stdout + done.stderr)
        assert "hello from a container" in done.stdout


def others() -> list[str]:
    """One program of each other version of Python that the engine takes and this machine has."""
    made = sorted(Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv").glob("versions/*/bin/python3"))
    named = [shutil.which(f"python3.{minor}") for minor in range(11, 20)]
    versions: dict[int, str] = {}
    for program in filter(None, [*named, *map(str, made)]):
        told = subprocess.run(
            [program, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True
        )
        if told.stdout.startswith("3 "):
            versions[int(told.stdout.split()[1])] = program
    return [program for minor, program in versions.items() if 11 <= minor != sys.version_info.minor]


def test_a_host_without_its_muxer_has_the_python_one(world: World, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(PROJECT / "engine", tree / "engine", ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "_muxer").mkdir()
    shutil.copy(PROJECT / "_muxer/__init__.py", tree / "_muxer")
    daemon = Packed(world.directory(), world.namespaces)
    daemon.file = bundle(tmp_path / "bare.pyz", tree)
    with running(daemon):
        assert ["Muxer", "python"] in daemon.request("GET", "/info").json()["DriverStatus"]
        daemon.import_busybox()
        assert daemon.engine("run", "--rm", "busybox", "echo", "hi").stdout == b"hi\n"


def test_a_host_without_cffi_is_told_so(file: Path, tmp_path: Path) -> None:
    """Python without its site-packages has none."""
    command = [sys.executable, "-I", "-S", str(file), "check"]
    shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout
    assert "Python does not find the library of cffi" in " ".join(shown.split())
    assert "apt-get install python3-cffi-backend" in " ".join(shown.split())


@pytest.mark.alone
def test_a_start_from_the_file_takes_about_as_long_as_from_a_clone(world: World, file: Path) -> None:
    """With code for this Python in it; the best of five, taken in turns."""
    spent: dict[str, list[float]] = {"clone": [], "file": []}
    for _ in range(5):
        for kind, made in (("clone", Daemon), ("file", Packed)):
            daemon = made(world.directory(), world.namespaces)
            if isinstance(daemon, Packed):
                daemon.file = file
            began = time.monotonic()
            daemon.start()
            spent[kind].append(time.monotonic() - began)
            daemon.stop()
    print({kind: f"{min(times) * 1000:.0f} ms" for kind, times in spent.items()})
    assert min(spent["file"]) < 1.8 * min(spent["clone"]), spent


def processor_seconds(pid: int) -> float:
    """What a process has taken of the processors so far (proc_pid_stat(5), utime and stime)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.alone
def test_buildkit_s_first_answer_from_the_file_needs_few_modules(world: World, file: Path) -> None:
    """They have no code in the file; what builds is loaded by the first build. It takes 0.2 s on a quiet machine.

    Seconds of the processor, which a busy one doubles; all that builds would take 1.6.
    """
    spent = []
    for _ in range(3):
        daemon = Packed(world.directory(), world.namespaces)
        daemon.file = file
        with running(daemon):
            before = processor_seconds(daemon.pid)
            with grpc.insecure_channel(f"unix:{daemon.socket}") as channel:
                channel.unary_unary(methods.CONTROL + "ListWorkers", bytes, bytes)(b"", timeout=60)
            spent.append(processor_seconds(daemon.pid) - before)
    print([f"{each * 1000:.0f} ms" for each in spent])
    assert min(spent) < patient(0.6), spent


# Whatever is no file system of the kernel's own can be written to in the daemon's directory and nowhere else.
READ_ONLY = """set -e
mount --bind "$1" "$1"
mkdir -p "$1/data" "$1/exec"
mount -t tmpfs -o size=64m tmpfs "$1/data"
mount -t tmpfs -o size=8m tmpfs "$1/exec"
mount -o remount,bind,ro /
for place in /tmp /var/tmp /run /root /etc /dev/shm; do
    if mountpoint -q "$place"; then mount -o remount,bind,ro "$place"; fi
    if touch "$place/probe" 2>/dev/null; then echo "$place can be written to"; fi
done
"""


def test_a_host_that_can_be_written_to_nowhere(world: World, file: Path) -> None:
    """The root is read-only, and so is /tmp; the data root is in memory. All the usual works, and a restart."""
    daemon = Packed(world.directory(), world.machine())
    daemon.file = daemon.root / "engine.pyz"
    shutil.copy2(file, daemon.file)
    made = daemon.namespaces.command(["sh", "-c", READ_ONLY, "sh", str(daemon.root)])
    done = subprocess.run(made, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    with running(daemon):
        daemon.import_busybox()
        bound = {"NetworkMode": "bridge", "Binds": ["kept:/kept"], "PortBindings": {"80/tcp": [{"HostPort": "8042"}]}}
        one = daemon.create("sh", "-c", "echo up; sleep 1000", HostConfig=bound, ExposedPorts={"80/tcp": {}})
        daemon.begin(one)
        assert execs.run(daemon, one, "sh", "-c", "echo a > /kept/a; echo b > /b; cat /kept/a").out == "a\n"
        until(lambda: b"up\n" in daemon.logs(one))
        assert not building.build(daemon, "FROM busybox\nRUN echo built > /it\nCMD cat /it\n", t="built").error
        ran = daemon.command(sys.executable, str(daemon.file), "run", "--rm", "built", cwd="/")
        assert (ran.returncode, ran.stdout) == (0, b"built\n"), ran
        assert daemon.request("GET", f"/containers/{one}/archive?path=/b").status == 200
        assert daemon.request("GET", "/images/built/get").status == 200
        daemon.restart()
        assert daemon.inspect(one)["State"]["Running"]
        left = {path.name for path in daemon.root.iterdir()}
        assert left == {"data", "exec", "engine.pyz", "log", "pid", "s"}
    places = [str(daemon.data_root), str(daemon.exec_root), str(daemon.root)]
    subprocess.run(daemon.namespaces.command(["umount", "--lazy", *places]), check=True)
