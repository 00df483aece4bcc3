"""All that monitors, forwarders and the resolver can be asked, when the files that they came from are there no more."""

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.wire import endpoint, exitfile
from engine.wire.channel import Channel
from engine.wire.schema import Started, Warned
from tests.api.logdrivers import attached, driver
from tests.api.networking import container, networks, subnet
from tests.chaos.killing import parent_of
from tests.harness import execs, frames, stranded
from tests.harness.daemon import Daemon
from tests.harness.fixtures import World

NONE = {"NetworkMode": "none"}
ALIEN = (
    b'J{"@":"FromTomorrow","x":1}',
    b'J{"@":"Exited","exit_code":1,"finished_ns":2}',
    b"M",
    b"\xff\xfe",
    b"J" + b"[" * 5000,
)


class Stranded(Daemon):
    """A daemon whose spawner finds no files."""

    program = "tests.harness.stranded"

    @property
    def environment(self) -> dict[str, str]:
        """Also its clients', who do not mind."""
        return {**super().environment, stranded.ASKED: str(self.root / "asked")}

    def asked(self) -> list[str]:
        """What was looked for in files since the last call."""
        file = self.root / "asked"
        found = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return found


@pytest.fixture(scope="module", params=["auto", "python"])
def alone(world: World, request: pytest.FixtureRequest) -> Iterator[Stranded]:
    """Such a daemon with either muxer, for this file."""
    daemon = Stranded(world.directory(), world.namespaces, ("--muxer", request.param))
    daemon.start()
    daemon.import_busybox()
    yield daemon
    daemon.close()


@pytest.fixture
def daemon(alone: Stranded) -> Iterator[Stranded]:
    """The same; at the end of a test nobody has looked for anything in a file."""
    alone.asked()
    yield alone
    assert alone.asked() == []


def settled(check: Callable[[], bool]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + 60
    while not check():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_what_a_container_can_be_given(daemon: Stranded) -> None:
    """Its launch in every part that is not each container's; and a command that cannot be run."""
    rich = {
        "User": "nobody:nobody",
        "WorkingDir": "/srv/made",
        "Hostname": "rich",
        "HostConfig": {
            **NONE,
            "Init": True,
            "ReadonlyRootfs": True,
            "Tmpfs": {"/scratch": "size=1m"},
            "CapAdd": ["SYS_PTRACE"],
            "Sysctls": {"kernel.shm_rmid_forced": "1"},
            "Ulimits": [{"Name": "nofile", "Soft": 64, "Hard": 64}],
            "Devices": [{"PathOnHost": "/dev/null", "PathInContainer": "/dev/nil", "CgroupPermissions": "rw"}],
            "Binds": [f"{daemon.root}:/host:ro", "named:/named"],
            "SecurityOpt": ["no-new-privileges"],
            "MaskedPaths": ["/proc/kcore"],
            "ShmSize": 1 << 20,
        },
    }
    assert daemon.run("id", "-un", **rich).stdout == b"nobody\n"
    assert daemon.run("true", HostConfig={**NONE, "Privileged": True}).status == 0
    assert daemon.run("true", HostConfig={**NONE, "SecurityOpt": ["seccomp=unconfined"]}).status == 0
    assert daemon.run("tty", Tty=True).status == 0
    one = daemon.create("/no/such/command")
    assert daemon.request("POST", f"/containers/{one}/start").status == 400
    daemon.remove(one)
    daemon.request("DELETE", "/volumes/named")


def test_clients_come_and_go_and_the_terminal_is_resized(daemon: Stranded) -> None:
    # The new size and the next bytes take different ways to the terminal.
    script = "read x; until stty size | grep '33 44'; do sleep 0.02; done; read x; exit 3"
    one = daemon.create("sh", "-c", script, Tty=True, OpenStdin=True)
    daemon.begin(one)
    with attached(daemon, one, "stream=1&stdin=1&stdout=1&detachKeys=ctrl-p,ctrl-q") as client:
        assert daemon.request("POST", f"/containers/{one}/resize?h=33&w=44").status == 200
        client.sendall(b"\n")
        got = b""
        while b"33 44" not in got:
            got += client.recv(1000)
        client.sendall(b"\x10\x11")
        while client.recv(1000):
            pass
    daemon.kill9()
    daemon.start()
    with attached(daemon, one, "stream=1&stdin=1&stdout=1") as client:
        client.sendall(b"\n")
        assert daemon.wait(one) == 3
    daemon.remove(one)


def test_execs(daemon: Stranded) -> None:
    with container(daemon, HostConfig=NONE) as one:
        for _ in range(3):  # by a spare too
            assert execs.run(daemon, one, "sh", "-c", "cat; echo err >&2; exit 4", stdin=b"in") == (4, "in", "err\n")
        assert execs.run(daemon, one, "id", "-un", User="nobody", WorkingDir="/tmp", Env=["A=b"]).out == "nobody\n"
        assert "/dev/" in execs.run(daemon, one, "tty", Tty=True).out
        assert execs.run(daemon, one, "/no/such/command").code in (126, 127)


def test_a_log_of_json_lines_is_compressed_and_replayed(daemon: Stranded) -> None:
    """A client that wants the log so far is owed what came into it meanwhile, which the monitor reads."""
    options = {"max_size": "2k", "max_file": "3", "compress": "true", "labels": "my.label"}
    body = driver("json-file", **options)
    script = "i=0; while [ $i -lt 100 ]; do echo line $i; i=$((i+1)); done; read x; echo last; read x; exit 5"
    one = daemon.create("sh", "-c", script, OpenStdin=True, Labels={"my.label": "v"}, **body)
    daemon.begin(one)
    log = daemon.data_root / "containers" / one
    settled(lambda: any(log.rglob("*.gz")))
    with attached(daemon, one, "logs=1&stream=1&stdin=1&stdout=1") as client:
        client.sendall(b"\n")
        got = b""
        while b"last" not in got:
            got += client.recv(1000)
        assert b"line 99" in got
        client.sendall(b"\n")
        assert daemon.wait(one) == 5
    daemon.remove(one)


@pytest.mark.parametrize("mode", ["blocking", "non-blocking"])
@pytest.mark.parametrize("kind", ["udp", "tcp", "unixgram"])
def test_lines_go_to_a_syslog_that_comes_back(daemon: Stranded, kind: str, mode: str) -> None:
    with contextlib.ExitStack() as stack:
        if kind == "unixgram":
            path = f"{daemon.root}/syslog"
            stack.callback((daemon.root / "syslog").unlink)
            listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            listener.bind(path)
            address = f"unixgram://{path}"
        else:
            kinds = {"udp": socket.SOCK_DGRAM, "tcp": socket.SOCK_STREAM}
            listener = stack.enter_context(daemon.namespaces.socket(kinds[kind]))
            listener.bind(("127.0.0.1", 0))
            address = f"{kind}://localhost:{listener.getsockname()[1]}"
            if kind == "tcp":
                listener.listen()
        listener.settimeout(20)
        body = driver("syslog", syslog_address=address, mode=mode)
        one = daemon.create(
            "sh", "-c", "while read x; do echo said $x; done; exit 6", OpenStdin=True, StdinOnce=True, **body
        )
        daemon.begin(one)
        with attached(daemon, one, "stream=1&stdin=1") as client:
            client.sendall(b"one\n")
            if kind == "tcp":
                accepted, _ = listener.accept()
                with accepted:
                    accepted.settimeout(20)
                    assert b"said one" in accepted.recv(1000)
                # It is gone: the forwarder looks the host up anew, and the lines until it has heard are lost.
                listener.settimeout(0.05)
                accepted = None
                while accepted is None:
                    client.sendall(b"two\n")
                    with contextlib.suppress(TimeoutError):
                        accepted, _ = listener.accept()
                with accepted:
                    accepted.settimeout(20)
                    assert b"said two" in accepted.recv(1000)
            else:
                assert b"said one" in listener.recv(1000)
            client.shutdown(socket.SHUT_WR)
            assert daemon.wait(one) == 6
        daemon.remove(one)


def test_names_are_answered(daemon: Stranded) -> None:
    """By the resolver, which is forked for the first network of users'; and by the next, when that one was killed."""
    with networks(daemon, named=subnet("10.77.0.0/24")):
        with container(daemon, HostConfig={"NetworkMode": "named"}) as one:
            assert "Address" in execs.run(daemon, one, "nslookup", "-type=a", f"{one}.").out
            execs.run(daemon, one, "nslookup", "-type=a", "no.such.name.")
            execs.run(daemon, one, "sh", "-c", "echo nothing | nc 127.0.0.11 53")


def test_a_word_that_a_monitor_does_not_understand_is_told_and_no_death(daemon: Stranded) -> None:
    """A newer daemon may send one: unknown, cut, of other fields, without what comes with it."""
    one = daemon.create("sh", "-c", "trap 'exit 8' TERM; echo up; while :; do sleep 0.02; done")
    daemon.begin(one)
    settled(lambda: b"up" in daemon.logs(one))  # only then does it obey
    daemon.kill9()
    words = (
        *ALIEN,
        b'J{"@":"Attach"}',
        b'J{"@":"Attach","client":{"@":"Client","streams":6,"framed":true}}',
        b'J{"@":"Resize","rows":"many","columns":null}',
    )
    with Channel(endpoint.connect(str(daemon.exec_root / "containers" / one), 20)) as link:
        for word in words:
            greeting = [] if word is not words[0] else [link.receive()[0]]
            assert all(isinstance(each, Started) for each in greeting)
            link.socket.send(word)
            if word.startswith(b'J{"@":"Resize"'):
                continue  # there is no terminal
            assert isinstance(link.receive()[0], Warned), word
    daemon.start()
    assert daemon.inspect(one)["State"]["Running"]
    assert daemon.request("POST", f"/containers/{one}/stop").status == 204
    assert daemon.inspect(one)["State"]["ExitCode"] == 8
    assert frames.stdout(daemon.logs(one)) == b"up\n"
    daemon.remove(one)


def test_a_word_that_the_resolver_does_not_understand_is_answered_and_no_death(daemon: Stranded) -> None:
    """The next daemon finds the same one."""
    with networks(daemon, foreign=subnet("10.77.1.0/24")):
        with container(daemon, HostConfig={"NetworkMode": "foreign"}) as one:
            daemon.kill9()
            with Channel(endpoint.connect(str(daemon.exec_root), 20, endpoint.RESOLVER)) as link:
                resolver = link.receive()[0].pid
                for word in (*ALIEN, b'J{"@":"Serve"}', b'J{"@":"Forget","container":"nobody","why":"newer"}'):
                    link.socket.send(word)
                    assert bool(link.receive()[0].text) == (b"Forget" not in word), word
            daemon.start()
            assert "Address" in execs.run(daemon, one, "nslookup", "-type=a", f"{one}.").out
            with open(f"/proc/{resolver}/status") as status:
                assert "zombie" not in status.read()


def test_what_a_monitor_has_left_of_its_crash_need_not_be_text(daemon: Stranded) -> None:
    """It was cut, perhaps within a letter."""
    one = daemon.create("sleep", "1000")
    daemon.begin(one)
    (daemon.exec_root / "containers" / one / exitfile.CRASH).write_bytes("é: why".encode()[1:])
    pid = daemon.inspect(one)["State"]["Pid"]
    # The half that has launched it may still be its parent.
    settled(lambda: Path(f"/proc/{parent_of(pid)}/comm").read_text() == "engine monitor\n")
    os.kill(parent_of(pid), signal.SIGKILL)
    assert daemon.wait(one) == 255
    settled(lambda: ": why" in daemon.log)
    daemon.remove(one)
