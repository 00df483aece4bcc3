"""Containers that a frontend runs processes in: what they see and say, their ends, and what is refused."""

import contextlib
import os
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.daemon.buildkit.messages import ops
from engine.errors import EngineError
from engine.protocols import grpc
from tests.harness.conversations import conversing, room
from tests.harness.daemon import Daemon
from tests.harness.frontends import frontend
from tests.harness.graphs import Writer


def containers(daemon: Daemon) -> set[str]:
    return {each["Id"] for each in daemon.request("GET", "/containers/json?all=1").json()}


@pytest.fixture
def nothing_left(daemon: Daemon, busybox: str) -> Iterator[None]:
    """No container outlives the test."""
    before = containers(daemon)
    yield
    assert containers(daemon) <= before


pytestmark = pytest.mark.usefixtures("nothing_left")


def test_a_process_is_talked_with(daemon: Daemon) -> None:
    with frontend(daemon) as asked, conversing(asked) as talk:
        id = room(asked, hostname="somewhere", extraHosts=[{"Host": "other", "IP": "10.9.8.7"}])
        script = "echo $A $(pwd) $(hostname) $$; grep other /etc/hosts; echo no >&2; cat; exit 7"
        talk.begin("p", id, "sh", "-c", script)
        talk.until("p", "Started")
        talk.send("p", b"said\n")
        talk.send("p", eof=True)
        told = talk.until("p", "Done")
        assert told.order[0] == "Started" and told.order[-2:] == ["Exit", "Done"]
        assert told.code == 7
        assert told.out[1].split() == [b"b", b"/tmp", b"somewhere", b"1", b"10.9.8.7", b"other", b"said"]
        assert told.out[2] == b"no\n"


def test_further_processes_share_the_container_and_end_with_the_first(daemon: Daemon) -> None:
    with frontend(daemon) as asked, conversing(asked) as talk:
        id = room(asked)
        talk.begin("first", id, "sh", "-c", "echo $A > /shared; cat", meta={"env": ["A=first", "B=c"]})
        talk.until("first", "Started")
        wait = "until [ -e /shared ]; do sleep 0.01; done; cat /shared; echo $A-$B"
        talk.begin("second", id, "sh", "-c", wait, meta={"env": ["A=second"]})
        assert talk.until("second", "Done").out[1] == b"first\nsecond-\n"
        talk.begin("third", id, "sleep", "1000")
        talk.until("third", "Started")
        talk.send("first", eof=True)
        told = talk.end()
        assert told["first"].code == 0 and told["third"].code == 137


def test_a_terminal_has_a_size_and_one_stream(daemon: Daemon) -> None:
    with frontend(daemon) as asked, conversing(asked) as talk:
        id = room(asked)
        talk.begin("p", id, "sh", Tty=True)
        talk.until("p", "Started")
        talk.call.send({"ProcessID": "p", "Resize": {"Rows": 33, "Cols": 99}})
        talk.send("p", b"sleep 0.1; stty size; echo err >&2; exit\n")
        told = talk.until("p", "Done")
        assert b"33 99" in told.out[1] and b"err" in told.out[1]
        assert not told.out.get(2)


def test_a_command_that_is_not_there_leaves_the_container_to_another(daemon: Daemon) -> None:
    with frontend(daemon) as asked:
        id = room(asked)
        with conversing(asked) as talk, pytest.raises(EngineError, match="not found"):
            talk.begin("p", id, "no-such-command")
            talk.end()
        with conversing(asked) as talk:
            talk.begin("q", id, "sh", "-c", "echo $$")
            assert talk.until("q", "Done").out[1] == b"1\n"


def test_signals_reach_each_process(daemon: Daemon) -> None:
    with frontend(daemon) as asked, conversing(asked) as talk:
        id = room(asked)
        for process, trap in (("first", "USR1"), ("second", "TERM")):
            script = f"trap 'echo got; exit 3' {trap}; echo ready; while :; do sleep 0.05; done"
            talk.begin(process, id, "sh", "-c", script)
            talk.until(process, "File", b"ready")
        talk.call.send({"ProcessID": "second", "Signal": {"Name": "SIGTERM"}})
        assert talk.until("second", "Done").code == 3
        talk.call.send({"ProcessID": "first", "Signal": {"Name": "SIGUSR1"}})
        assert talk.until("first", "Done").code == 3


def test_mounts(daemon: Daemon) -> None:
    """Trees, read-only or written to without a trace; a tmpfs; a cache."""
    with frontend(daemon) as asked, conversing(asked) as talk:
        writer = Writer()
        made = writer.files({"mkfile": {"path": "/f", "data": b"of a tree\n", "mode": 0o644, "timestamp": -1}})
        tree = asked.solve(writer.definition(made))
        mounts: tuple[ops.Mount, ...] = (
            {"dest": "/ro", "resultID": tree, "readonly": True},
            {"dest": "/rw", "resultID": tree},
            {"dest": "/t", "mountType": ops.TMPFS},
            {"dest": "/c", "mountType": ops.CACHE, "cacheOpt": {"ID": uuid.uuid4().hex}},
        )
        id = room(asked, *mounts)
        script = (
            "cat /ro/f; touch /ro/x 2>/dev/null || echo read-only; echo more >> /rw/f && cat /rw/f; touch /t/a /c/b"
        )
        talk.begin("p", id, "sh", "-c", script)
        told = talk.until("p", "Done")
        assert (told.code, told.out[1]) == (0, b"of a tree\nread-only\nof a tree\nmore\n")
        assert asked.read(tree, "/f") == b"of a tree\n"


def test_a_released_container_is_gone_with_its_processes(daemon: Daemon) -> None:
    before = containers(daemon)
    with frontend(daemon) as asked, conversing(asked) as talk:
        id = room(asked)
        talk.begin("p", id, "sleep", "1000")
        talk.until("p", "Started")
        assert len(containers(daemon) - before) == 1
        asked("ReleaseContainer", {"ContainerID": id})
        assert talk.until("p", "Done").code == 137
        assert containers(daemon) == before
        asked("ReleaseContainer", {"ContainerID": id})
        asked("NewContainer", {"ContainerID": id, "Mounts": [{"dest": "/"}]})


def test_the_files_of_a_container_are_seen_from_outside(daemon: Daemon) -> None:
    """Before its first process, while one runs and after its end: the root's and those of each mount, by its place."""
    with frontend(daemon) as asked, conversing(asked) as talk:
        writer = Writer()
        made = writer.files(
            {"mkdir": {"path": "/d", "mode": 0o755, "timestamp": -1}},
            {"mkfile": {"path": "/d/f", "data": b"of a tree", "mode": 0o640, "timestamp": -1}},
        )
        under: ops.Mount = {"resultID": asked.solve(writer.definition(made)), "selector": "/d"}
        mounts: tuple[ops.Mount, ...] = (
            {"dest": "/ro", "readonly": True, **under},
            {"dest": "/rw", **under},
            {"dest": "/c", "mountType": ops.CACHE, "cacheOpt": {"ID": uuid.uuid4().hex}},
            {"dest": "/t", "mountType": ops.TMPFS},
        )
        id = room(asked, *mounts)

        def read(place: int, path: str) -> Any:
            return asked("ReadFileContainer", {"Ref": id, "FilePath": path, "MountIndex": place})["Data"]

        def names(place: int, path: str) -> list[str]:
            asked_for = {"Ref": id, "DirPath": path, "MountIndex": place}
            return [each["path"] for each in asked("ReadDirContainer", asked_for)["entries"]]

        assert b"root" in read(0, "/etc/passwd") and [read(place, "f") for place in (1, 2)] == [b"of a tree"] * 2
        assert names(3, "/") == []
        script = "echo a >/new; ln -s /etc/hostname /link; echo b >>/rw/f; echo c >/c/it; mkfifo /pipe; echo; cat"
        talk.begin("p", id, "sh", "-c", script)
        talk.until("p", "File")
        for _ in range(2):
            assert (read(0, "/new"), read(1, "/f"), read(2, "/f")) == (b"a\n", b"of a tree", b"of a treeb\n")
            assert names(0, "/c") == [] and names(3, "/") == ["it"]  # of the root's own file system
            found = asked("StatFileContainer", {"Ref": id, "Path": "f", "MountIndex": 1})["stat"]
            assert (found["path"], found["mode"], found["size"]) == ("f", 0o640, 9)
            assert asked("ReadFileContainer", {"Ref": id, "FilePath": "new", "Range": {"Length": 1}})["Data"] == b"a"
            talk.send("p", eof=True)
            if talk.told["p"].code is None:
                talk.until("p", "Done")
        for place, path, words in (
            (0, "/none", "no such file"),
            (0, "/pipe", "not a regular file"),
            (4, "/x", "a tmpfs is seen by its container alone"),
            (5, "/x", "mount index 5 is out of bounds"),
            (-1, "/x", "mount index -1 is out of bounds"),
        ):
            with pytest.raises(EngineError, match=words):
                read(place, path)
        asked("ReleaseContainer", {"ContainerID": id})
        with pytest.raises(EngineError, match="released or not created"):
            read(0, "/new")


def test_the_end_of_a_build_ends_its_containers(daemon: Daemon) -> None:
    """Whatever still runs, and though nobody reads what it writes."""
    ended = threading.Event()
    with frontend(daemon) as asked:
        with conversing(asked) as talk:
            id = room(asked)
            talk.begin("p", id, "yes")
            talk.until("p", "File")
            asked("Return", {"result": {"ref": {}}})
            ended.set()
        assert ended.is_set()


def test_a_frontend_that_goes_ends_its_processes(daemon: Daemon) -> None:
    with frontend(daemon) as asked:
        id = room(asked)
        with conversing(asked) as talk:
            talk.begin("p", id, "sleep", "1000")
            talk.until("p", "Started")
        with conversing(asked) as talk:  # its end has ended process 1, and so the container
            talk.begin("q", id, "true")
            with contextlib.suppress(EngineError):
                talk.until("q", "Done")


@pytest.mark.parametrize(
    ("asked_for", "words"),
    [
        ({"ContainerID": ""}, "container ID required"),
        ({"Mounts": []}, "root mount is required"),
        ({"Mounts": [{"dest": "/", "resultID": "none"}]}, "no such ref: none"),
        ({"Mounts": [{"dest": "/"}, {"dest": "/x", "mountType": 9}]}, "unknown type of the mount"),
        ({"Mounts": [{"dest": "/"}, {"dest": "/x\0"}]}, "a NUL in a text"),
        ({"Network": ops.HOST}, "network.host is not allowed"),
        ({"Network": 9}, "unknown network mode"),
    ],
)
def test_what_cannot_be_prepared(daemon: Daemon, asked_for: dict[str, Any], words: str) -> None:
    with frontend(daemon) as asked, pytest.raises(EngineError, match=words):
        asked("NewContainer", {"ContainerID": "c", "Mounts": [{"dest": "/"}], **asked_for})


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"ProcessID": ""}, "ProcessID required"),
        ({"ProcessID": "p"}, "IO for process"),
        ({"ProcessID": "p", "Init": {"ContainerID": "c"}}, "process meta is required"),
        ({"ProcessID": "p", "Init": {"ContainerID": "none", "Meta": {"args": ["x"]}}}, "previously released or not"),
        ({"ProcessID": "p", "Init": {"ContainerID": "c", "Meta": {"args": ["x\0"]}}}, "a NUL in a text"),
        (
            {"ProcessID": "p", "Init": {"ContainerID": "c", "Meta": {"args": ["x"]}, "Security": ops.INSECURE}},
            "security.insecure is not allowed",
        ),
        (
            {"ProcessID": "p", "Init": {"ContainerID": "c", "Meta": {"args": ["x"]}, "secretenv": [{"name": "S"}]}},
            "secret S: not found",
        ),
    ],
)
def test_what_cannot_be_run(daemon: Daemon, message: dict[str, Any], words: str) -> None:
    with frontend(daemon) as asked:
        asked("NewContainer", {"ContainerID": "c", "Mounts": [{"dest": "/"}]})
        with conversing(asked) as talk, pytest.raises(EngineError, match=words) as caught:
            talk.call.send(message)  # type: ignore[arg-type]
            talk.end()
        assert isinstance(caught.value, grpc.Failed)


def test_a_process_gets_what_the_daemon_grants_and_the_client_asks_for(make_daemon: Callable[..., Daemon]) -> None:
    """The network of the host for all of a container, and all rights for a process that says so.

    Further processes have all that the first one has.
    """
    daemon = make_daemon("--builder-entitlement", "security-insecure", "--builder-entitlement", "network-host")
    daemon.import_busybox()
    script = "readlink /proc/self/ns/net; sed -n 's/^CapEff:.//p' /proc/self/status"
    network = os.readlink(f"/proc/{daemon.pid}/ns/net")
    (rights,) = re.findall(r"^CapEff:\t(.*)$", Path(f"/proc/{daemon.pid}/status").read_text(), re.MULTILINE)
    with frontend(daemon, Entitlements=["network.host", "security.insecure"]) as asked, conversing(asked) as talk:
        for first, more in ((ops.SANDBOX, {"Network": ops.HOST}), (ops.INSECURE, {})):
            id = room(asked, **more)
            talk.begin(f"{id} first", id, "sh", "-c", f"{script}; echo .; cat", Security=first)
            found = {first: talk.until(f"{id} first", "File", b".").out[1].decode().split()[:2]}
            second = ops.SANDBOX if first == ops.INSECURE else ops.INSECURE
            talk.begin(f"{id} second", id, "sh", "-c", script, Security=second)
            found[second] = talk.until(f"{id} second", "Done").out[1].decode().split()
            for security, (seen, had) in found.items():
                assert (seen == network) == bool(more), (first, found)
                assert (had == rights) == (ops.INSECURE in (first, security)), (first, found)


def test_ids_are_taken_once_and_containers_are_few(daemon: Daemon) -> None:
    with frontend(daemon) as asked:
        for number in range(32):
            asked("NewContainer", {"ContainerID": str(number), "Mounts": [{"dest": "/"}]})
        with pytest.raises(EngineError, match="already exists"):
            asked("NewContainer", {"ContainerID": "0", "Mounts": [{"dest": "/"}]})
        with pytest.raises(EngineError, match="at most 32 containers"):
            asked("NewContainer", {"ContainerID": "more", "Mounts": [{"dest": "/"}]})
