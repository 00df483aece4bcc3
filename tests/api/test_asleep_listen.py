"""`engine listen`: the sleeper that holds the daemon's socket on a host without systemd, in C and in Python."""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import _muxer
from tests.harness import rootfs
from tests.harness.contexts import build
from tests.harness.daemon import PROJECT, Daemon
from tests.harness.fixtures import World
from tests.harness.http import Connection
from tests.harness.listening import listening
from tests.harness.sleeping import UNTIL_TOLD, Listening, first_process, until

PROGRAM = Path(_muxer.__file__).parent / "engine-sleeper"
ALWAYS = {"NetworkMode": "none", "RestartPolicy": {"Name": "always"}}


@pytest.fixture
def listen(world: World) -> Iterator[Callable[..., Listening]]:
    """Start `engine listen` for a new daemon, which ends after a second."""
    made: list[Listening] = []

    def make(*options: str, daemon: Daemon | None = None, python: bool = False) -> Listening:
        if not python and not PROGRAM.exists():
            pytest.skip("needs the sleeper: python3 -m _muxer.build")
        of = daemon or world.daemon(options or ("--idle-exit", "1"))
        made.append(Listening(of, python=python))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture(params=["c", "python"])
def sleeper(listen: Callable[..., Listening], request: pytest.FixtureRequest) -> Listening:
    """The sleeper of a daemon that has not run yet, of either kind."""
    return listen(python=request.param == "python")


def resident(pid: int) -> int:
    """The memory of a process, in bytes."""
    with open(f"/proc/{pid}/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


def test_a_client_starts_the_daemon_which_ends_by_itself(sleeper: Listening) -> None:
    """Again and again; there is no daemon before the first client, and the socket is only root's."""
    assert sleeper.asleep
    assert sleeper.daemon.socket.stat().st_mode & 0o777 == 0o660
    for _ in range(2):
        assert sleeper.daemon.request("GET", "/_ping").status == 200
        assert not sleeper.asleep
        sleeper.sleeps()
    assert sleeper.stop() == 0
    assert not sleeper.daemon.socket.exists()


def test_the_sleeper_takes_less_than_a_megabyte(listen: Callable[..., Listening]) -> None:
    """While there is no daemon, it is the only process of the engine."""
    sleeping = listen()
    assert sleeping.daemon.request("GET", "/_ping").status == 200
    sleeping.sleeps()
    assert resident(sleeping.process.pid) < 1024 * 1024
    assert Path(f"/proc/{sleeping.process.pid}/cmdline").read_bytes().startswith(b"engine listen\0")
    of_engine = subprocess.run(
        [sys.executable, "-m", "engine", "inspect-processes", "--exec-root", sleeping.daemon.exec_root],
        cwd=PROJECT,
        capture_output=True,
        text=True,
    )
    assert "found no process of an engine with this exec root" in of_engine.stderr, of_engine


def test_containers_run_on_and_wake_the_engine(sleeper: Listening) -> None:
    daemon = sleeper.daemon
    if rootfs.program() is None:
        pytest.skip("needs busybox: apt-get install busybox-static")
    daemon.import_busybox()
    one = daemon.create("sh", "-c", UNTIL_TOLD, HostConfig=ALWAYS)
    daemon.begin(one)
    pid = first_process(daemon, one)
    sleeper.sleeps()
    os.kill(pid, signal.SIGUSR1)
    until(lambda: not sleeper.asleep, "nobody woke the engine")
    until(lambda: daemon.inspect(one)["State"]["Pid"] not in (0, pid), "it is not run again")
    assert daemon.inspect(one)["RestartCount"] == 1


def test_a_daemon_that_is_killed_is_started_at_once(sleeper: Listening) -> None:
    """Containers may wait for it; a client that waits meanwhile is answered."""
    sleeper.daemon.request("GET", "/_ping")
    killed = sleeper.pid
    os.kill(killed, signal.SIGKILL)
    until(lambda: sleeper.pid not in (0, killed), "it is not started")
    assert sleeper.daemon.request("GET", "/_ping").status == 200
    assert "engine listen: the daemon was ended by signal 9, and is started anew in 0.1 s" in sleeper.daemon.log
    assert "the daemon before this one has ended in no order\n" in sleeper.daemon.log
    sleeper.sleeps()


def test_a_daemon_that_cannot_start_is_tried_after_longer_and_longer_pauses(listen: Callable[..., Listening]) -> None:
    """An option that only the daemon finds to be wrong; the sleeper can be ended all the same. No start says of the one
    before that it has ended in no order.
    """
    sleeping = listen("--idle-exit", "1", "--log-opt", "no-such-option=1")
    with Connection(sleeping.daemon.socket):
        failed = "engine listen: the daemon ended with status 1, and is started anew in "
        until(lambda: sleeping.daemon.log.count(failed) >= 5, "it gives up")
        said = [line.removeprefix(failed) for line in sleeping.daemon.log.splitlines() if line.startswith(failed)]
        assert said[:5] == ["0.1 s", "0.2 s", "0.4 s", "0.8 s", "1 s"]
        assert sleeping.stop() == 0
    assert "in no order" not in sleeping.daemon.log


# It takes a megabyte for each byte that it reads.
_EATER = """
import sys
open(sys.argv[1] + "/cgroup.procs", "w").write("0")
eaten = []
while sys.stdin.buffer.read(1):
    eaten.append(b"x" * (1 << 20))
    print(flush=True)
"""


class Small:
    """A memory cgroup of 64 MB, with an eater in it."""

    def __init__(self) -> None:
        memory = Path("/sys/fs/cgroup/memory")
        self.path = (memory if memory.exists() else memory.parent) / f"engine-test-{secrets.token_hex(4)}"
        try:
            self.path.mkdir()
            limit = self.path / ("memory.limit_in_bytes" if memory.exists() else "memory.max")
            limit.write_text(str(64 << 20))
        except OSError as error:
            with contextlib.suppress(OSError):
                self.path.rmdir()
            pytest.skip(f"needs the memory controller: {error}")
        words = [sys.executable, "-c", _EATER, str(self.path)]
        self.eater = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def add(self, sleeping: Listening) -> None:
        """Put the sleeper there, and with it the daemons that it starts, the first to be killed."""
        Path(f"/proc/{sleeping.process.pid}/oom_score_adj").write_text("1000")
        (self.path / "cgroup.procs").write_text(str(sleeping.process.pid))

    def eat(self, megabytes: int) -> None:
        for _ in range(megabytes):
            self.eater.stdin.write(b"x")
            self.eater.stdin.flush()
            assert self.eater.stdout.readline() == b"\n"

    def give_back(self) -> None:
        """End the eater."""
        self.eater.kill()
        self.eater.communicate()

    def kills(self) -> int:
        """How many processes of it the kernel has killed."""
        events = next(each for each in ("memory.oom_control", "memory.events") if (self.path / each).exists())
        lines = (self.path / events).read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))


@pytest.fixture
def small() -> Iterator[Small]:
    made = Small()
    yield made
    made.give_back()
    until(lambda: _removed(made.path), "it is still in use")


def _removed(directory: Path) -> bool:
    """Whether a cgroup could be removed, whose processes leave it first: the engine in it may be starting some."""
    for pid in (directory / "cgroup.procs").read_text().split():
        with contextlib.suppress(ProcessLookupError):
            (directory.parent / "cgroup.procs").write_text(pid)
    try:
        directory.rmdir()
    except OSError:
        return False
    return True


def test_a_daemon_that_lacks_memory_is_told_of_with_figures(listen: Callable[..., Listening], small: Small) -> None:
    """By the sleeper, and by the next daemon."""
    sleeping = listen("--idle-exit", "600")
    small.add(sleeping)
    sleeping.daemon.request("GET", "/_ping")
    first = sleeping.pid
    while small.kills() == 0:
        small.eat(1)
    small.give_back()
    with contextlib.suppress(ProcessLookupError):  # it may have been the spawner that was killed
        os.kill(first, signal.SIGKILL)
    until(lambda: sleeping.pid not in (0, first), "it is not started")
    assert sleeping.daemon.request("GET", "/_ping").status == 200
    assert "engine listen: the daemon was ended by signal 9, and is started anew in 0.1 s" in sleeping.daemon.log
    why = "has ended in no order, and meanwhile the kernel has killed for want of memory: there are 64 MB, of which"
    assert why in sleeping.daemon.log


def test_kills_and_a_build_in_64_megabytes_beside_three_services(
    listen: Callable[..., Listening], small: Small
) -> None:
    """Each of which another daemon has started, and which take 18 MB."""
    daemon = (sleeping := listen()).daemon
    small.add(sleeping)
    daemon.import_busybox()
    small.eat(18)
    made = []
    try:
        for _ in range(3):
            made.append(daemon.create("sleep", "600", HostConfig={"NetworkMode": "none"}))
            daemon.begin(made[-1])
            killed = sleeping.pid
            os.kill(killed, signal.SIGKILL)
            until(lambda killed=killed: sleeping.pid not in (0, killed), "it is not started")
            assert len(daemon.request("GET", "/containers/json").json()) == len(made)
        built = build(daemon, "FROM busybox\nRUN echo hi >/it\n")
        assert built.id, built.error
        assert small.kills() == 0
    finally:
        small.give_back()
        for each in made:
            daemon.remove(each)


def test_a_second_signal_is_for_the_daemon(sleeper: Listening) -> None:
    """SIGHUP and SIGUSR1 are passed on, and SIGTERM ends both, the daemon first."""
    sleeper.process.send_signal(signal.SIGHUP)  # it has nobody to pass it on to, and sleeps on
    sleeper.daemon.request("GET", "/_ping")
    sleeper.process.send_signal(signal.SIGUSR1)
    until(lambda: "threads" in sleeper.daemon.log, "the daemon does not say what it is doing")
    pid = sleeper.pid
    assert sleeper.stop() == 0
    assert not os.path.exists(f"/proc/{pid}")
    assert "stopped; containers run on" in sleeper.daemon.log


def told_to_stop(daemon: Daemon) -> tuple[str, int]:
    """A container that ends by a signal of its own, once it can: its id and its first process."""
    if rootfs.program() is None:
        pytest.skip("needs busybox: apt-get install busybox-static")
    daemon.import_busybox()
    one = daemon.create("sh", "-c", UNTIL_TOLD, StopSignal="SIGUSR1")
    daemon.begin(one)
    return one, first_process(daemon, one)


def test_a_power_failure_stops_the_containers_of_a_sleeping_engine(
    sleeper: Listening, listen: Callable[..., Listening]
) -> None:
    """SIGPWR: each with its own signal, by a daemon that is started for it."""
    daemon = sleeper.daemon
    one, pid = told_to_stop(daemon)
    sleeper.sleeps()
    assert sleeper.stop(signal.SIGPWR) == 0
    assert not os.path.exists(f"/proc/{pid}")
    assert "stopping 1 containers" in daemon.log
    listen(daemon=daemon)
    state = daemon.inspect(one)["State"]
    assert (state["Status"], state["ExitCode"]) == ("exited", 3)


def test_an_engine_that_did_not_fall_asleep_is_started_at_once(listen: Callable[..., Listening]) -> None:
    """After a boot, or the death of all of it, containers may wait for their policies."""
    first = listen()
    first.daemon.request("GET", "/_ping")
    assert first.stop() == 0
    second = listen(daemon=first.daemon)
    until(lambda: not second.asleep, "it waits for a client")
    second.sleeps()
    assert second.stop() == 0
    third = listen(daemon=first.daemon)
    assert third.asleep


def test_what_it_is_told_that_is_no_use_is_said(world: World) -> None:
    for options, said in (
        (("--host", "fd://"), "systemd holds such a socket"),
        (("--no-such",), "unknown flag: --no-such"),
        (("--host", "unix:///proc/engine.sock"), "cannot listen on unix:///proc/engine.sock"),
    ):
        daemon = world.daemon()
        words = [each for each in daemon.arguments() if each not in ("--host", daemon.url)]
        words[words.index("daemon")] = "listen"
        done = subprocess.run([*words, *options], env=daemon.environment, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (1, "")
        assert said in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_at_a_power_off_the_containers_of_a_sleeping_engine_are_stopped(
    sleeper: Listening, listen: Callable[..., Listening]
) -> None:
    """`engine power-off`, which systemd's unit runs. Here no systemd is seen, so it need not be asked."""
    daemon = sleeper.daemon
    one, pid = told_to_stop(daemon)
    words = daemon.arguments()
    words[words.index("daemon")] = "power-off"
    without = ["unshare", "--mount", "sh", "-ec", 'mount -t tmpfs none /run; exec "$@"', "sh", *words]

    def power_off() -> subprocess.CompletedProcess[str]:
        command = daemon.namespaces.command(without)
        return subprocess.run(command, env=daemon.environment, capture_output=True, text=True, timeout=60)

    with listening(daemon):  # it does not fall asleep before it is asked
        awake = power_off()
    assert (awake.returncode, awake.stderr) == (0, ""), "a daemon that runs stops them itself"
    sleeper.sleeps()
    done = power_off()
    assert done.returncode == 0 and "stopping 1 containers" in done.stderr, done
    assert not os.path.exists(f"/proc/{pid}")
    assert sleeper.stop() == 0
    listen(daemon=daemon)
    state = daemon.inspect(one)["State"]
    assert (state["Status"], state["ExitCode"]) == ("exited", 3)


def test_a_daemon_whose_sleeper_was_killed_stays_and_says_so_once(listen: Callable[..., Listening]) -> None:
    made = listen()
    words = "who started the daemon is gone"
    made.daemon.request("GET", "/_ping")
    pid = made.pid
    made.process.kill()
    made.process.wait()
    until(lambda: words in made.daemon.log, "it says nothing")
    time.sleep(2.5)
    assert made.daemon.log.count(words) == 1
    assert made.daemon.request("GET", "/_ping").status == 200
    os.kill(pid, signal.SIGTERM)
    until(lambda: not Path(f"/proc/{pid}").exists(), "it does not end")
