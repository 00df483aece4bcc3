"""GET /events: the past, the present, the filters, the forms, and clients that leave or do not read."""

import json
import os
import selectors
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness import rootfs
from tests.harness.amounts import amount
from tests.harness.daemon import Daemon
from tests.harness.listening import attributes_of, brief, listening, past, query, until
from tests.harness.pace import patient

pytestmark = pytest.mark.usefixtures("busybox")

KEYS = ["Type", "Action", "Actor", "scope", "time", "timeNano"]
TRAP = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.02; done"


def post(daemon: Daemon, path: str, body: object = None, status: int = 204) -> dict | None:
    """A call that must answer so."""
    answer = daemon.request("POST", path, body)
    assert answer.status == status, answer
    return answer.json() if answer.body and status < 204 else None


def test_a_whole_life(daemon: Daemon, container: Callable[..., str]) -> None:
    """Every verb tells its own, in dockerd's order and with its attributes (transcript 308 and a dockerd 20.10)."""
    name = f"life-{time.time_ns()}"
    one = container("sh", "-c", TRAP, name=name, Labels={"k": "v"}, Tty=True, OpenStdin=True)
    at = f"/containers/{one}"
    with daemon.connection() as attached:
        attached.hijack(f"{at}/attach?stream=1&stdout=1")
        daemon.begin(one)
        assert b"ready" in attached.read_until(b"ready")
        post(daemon, f"{at}/resize?h=20&w=70", status=200)
        post(daemon, f"{at}/pause")
        post(daemon, f"{at}/unpause")
        command = post(daemon, f"{at}/exec", {"Cmd": ["sh", "-c", "exit 3"], "AttachStdout": True}, status=201)["Id"]
        daemon.request("POST", f"/exec/{command}/start", {}, checked=False)
        # The end of what it says is seen before its end is told.
        until(lambda: past(daemon, filters={"container": [one], "event": ["exec_die"]}))
        daemon.request("GET", f"{at}/top")
        post(daemon, f"{at}/update", {"PidsLimit": 50}, status=200)
        daemon.request("GET", f"{at}/archive?path=/etc/passwd", checked=False)
        post(daemon, f"{at}/rename?name={name}-new")
        post(daemon, f"{at}/kill?signal=WINCH")
        post(daemon, f"{at}/restart?t=5")
        until(lambda: daemon.logs(one).count(b"ready") == 2)  # only then does it obey
        post(daemon, f"{at}/stop?t=5")
        daemon.request("GET", f"{at}/export", checked=False)
    daemon.begin(one)
    daemon.remove(one)
    told = past(daemon, filters={"container": [one]})
    assert {event["Type"] for event in told} == {"container"}
    assert all(event["Actor"]["Attributes"]["image"] == "busybox" for event in told)
    names = [event["Actor"]["Attributes"]["name"] for event in told]
    assert set(names[:12]) == {name} and set(names[13:]) == {f"{name}-new"}
    exec_id, label = {"execID": command}, {"k": "v"}
    assert [
        (action, {**more, "execDuration": "N"} if "execDuration" in more else more) for action, more in brief(told)
    ] == [
        (action, {**label, **more})
        for action, more in (
            ("create", {}),
            ("attach", {}),
            ("start", {}),
            ("resize", {"height": "20", "width": "70"}),
            ("pause", {}),
            ("unpause", {}),
            ("exec_create: sh -c exit 3", exec_id),
            ("exec_start: sh -c exit 3", exec_id),
            ("exec_die", {**exec_id, "exitCode": "3"}),
            ("top", {}),
            ("update", {}),
            ("archive-path", {}),
            ("rename", {"oldName": f"/{name}"}),
            ("kill", {"signal": "28"}),
            ("kill", {"signal": "15"}),
            ("die", {"exitCode": "7", "execDuration": "N"}),
            ("stop", {}),
            ("start", {}),
            ("restart", {}),
            ("kill", {"signal": "15"}),
            ("die", {"exitCode": "7", "execDuration": "N"}),
            ("stop", {}),
            ("export", {}),
            ("start", {}),
            ("kill", {"signal": "9"}),
            ("die", {"exitCode": "137", "execDuration": "N"}),
            ("destroy", {}),
        )
    ]


def test_an_event_is_a_line_of_json_in_docker_s_order(daemon: Daemon, container: Callable[..., str]) -> None:
    """The head is sent at once, the keys are as dockerd writes them, the attributes sorted."""
    with listening(daemon, filters={"type": ["container"], "label": ["a=<&>"]}) as listener:
        assert listener.headers["content-type"] == "application/jsonl"
        one = container("true", Labels={"z": "1", "a": "<&>"})
        event = listener.next()
    assert list(event) == KEYS and list(event["Actor"]) == ["ID", "Attributes"]
    assert (event["Type"], event["Action"], event["scope"]) == ("container", "create", "local")
    assert event["Actor"]["ID"] == one and list(event["Actor"]["Attributes"]) == ["a", "image", "name", "z"]
    assert event["time"] == event["timeNano"] // 10**9 and abs(event["time"] - time.time()) < 60


@pytest.mark.parametrize(
    ("version", "accept", "content_type", "separator"),
    [
        ("v1.54", "", "application/jsonl", b""),
        ("v1.54", "*/*", "application/jsonl", b""),
        ("v1.54", "application/x-ndjson", "application/x-ndjson", b""),
        ("v1.54", "application/json-seq, application/x-ndjson;q=0.5", "application/json-seq", b"\x1e"),
        ("v1.41", "", "application/json", b""),
        ("v1.41", "*/*", "application/json", b""),
        ("v1.51", "application/json-seq", "application/json-seq", b"\x1e"),
    ],
)
def test_the_form_is_what_the_client_likes(
    daemon: Daemon, container: Callable[..., str], version: str, accept: str, content_type: str, separator: bytes
) -> None:
    """Lines for whoever does not say, records with their separator for whoever asks for them."""
    one = container("true")
    asked = query(since=0, until=time.time(), filters={"container": [one]})
    headers = {"Accept": accept} if accept else {}
    answer = daemon.request("GET", f"/{version}/events?{asked}", headers=headers, checked=False)
    assert answer.headers["content-type"] == content_type
    assert answer.body.startswith(separator + b"{") and answer.body.endswith(b"}\n")
    json.loads(answer.body.removeprefix(separator))


def test_older_clients_are_told_as_they_know_it(daemon: Daemon, container: Callable[..., str]) -> None:
    """status, id and from beside the rest until 1.51; nothing of an image's `create` until 1.45."""
    one = container("true")
    post(daemon, f"/commit?container={one}&repo=told&tag=1", {}, status=201)

    def asked(version: str, kind: str) -> list[dict]:
        parameters = query(since=0, until=time.time(), filters={"type": [kind]})
        answer = daemon.request("GET", f"/{version}/events?{parameters}", checked=False)
        return [json.loads(line) for line in answer.body.splitlines()]

    try:
        made = next(event for event in asked("v1.51", "container") if event["Actor"]["ID"] == one)
        assert list(made) == ["status", "id", "from", *KEYS]
        assert (made["status"], made["id"], made["from"]) == ("create", one, "busybox")
        image = asked("v1.45", "image")
        assert all(list(event) == ["status", "id", *KEYS] and event["status"] != "create" for event in image)
        assert "create" in [event["Action"] for event in asked("v1.46", "image")]
        assert all(list(event) == KEYS for event in asked("v1.52", "image"))
    finally:
        daemon.request("DELETE", "/images/told:1")


def test_the_past_is_between_since_and_until(daemon: Daemon, container: Callable[..., str]) -> None:
    """Both bounds count; without any of them there is no past."""
    one = container("true")
    daemon.begin(one)
    daemon.wait(one)
    only = {"container": [one]}
    events = until(lambda: len(found := past(daemon, filters=only)) == 3 and found)
    first, second, third = (f"{event['timeNano'] // 10**9}.{event['timeNano'] % 10**9:09d}" for event in events)
    assert past(daemon, since=second, filters=only) == events[1:]
    assert past(daemon, until=second, filters=only) == events[:2]
    assert past(daemon, since=second, until=second, filters=only) == events[1:2]
    assert past(daemon, since=0, until=0, filters=only) == events
    with listening(daemon, filters=only) as listener:
        post(daemon, f"/containers/{one}/rename?name=later-{time.time_ns()}")
        assert listener.next()["Action"] == "rename"
    assert float(first) < float(third)


@pytest.mark.alone
def test_until_in_the_future_ends_the_stream(daemon: Daemon, container: Callable[..., str]) -> None:
    """When it is over; what happens until then is told."""
    began, label = time.monotonic(), f"until-{time.time_ns()}"
    with listening(daemon, until=time.time() + 0.5, filters={"label": [label]}) as listener:
        one = container("true", Labels={label: ""})
        assert listener.next()["Actor"]["ID"] == one
        with pytest.raises(StopIteration):
            while listener.next():
                pass
    assert 0.4 < time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        (
            "since=bogus",
            'invalid value for \'since\': invalid timestamp "bogus": invalid seconds "bogus": invalid syntax',
        ),
        (
            "until=1.x",
            "invalid value for 'until': invalid timestamp \"1.x\": invalid nanoseconds: "
            "invalid character 'x' at position 0",
        ),
        ("since=5&until=2", "`since` time (5) cannot be after `until` time (2)"),
        ("filters=%7Bbad", "invalid filter"),
    ],
)
def test_what_cannot_be_is_refused(daemon: Daemon, parameters: str, text: str) -> None:
    """400 before any of the stream."""
    answer = daemon.request("GET", f"/events?{parameters}")
    assert (answer.status, answer.message) == (400, text)


def test_filters_choose(daemon: Daemon, container: Callable[..., str]) -> None:
    """By kind, action, container, label and image, together."""
    label = f"filter-{time.time_ns()}"
    one, other = container("true", Labels={label: "1"}), container("true")
    for each in (one, other):
        daemon.begin(each)
        daemon.wait(each)
    until(lambda: len(past(daemon, filters={"container": [other]})) == 3)
    assert [event["Action"] for event in past(daemon, filters={"label": [f"{label}=1"]})] == ["create", "start", "die"]
    both = past(daemon, filters={"container": [one, other[:20]], "event": ["start"], "type": ["container"]})
    assert [event["Actor"]["ID"] for event in both] == [one, other]
    assert past(daemon, filters={"label": [label], "image": ["nobody"]}) == []
    assert len(past(daemon, filters={"label": [label], "image": ["busybox"]})) == 3


def test_images_tell_what_happens_to_them(own_daemon: Daemon) -> None:
    """Import, tag, untag, delete and load, as dockerd does with its containerd store (transcript 308)."""
    image = own_daemon.import_image(rootfs.busybox(), "told:1", (*rootfs.CHANGES, "LABEL l=m"))
    own_daemon.request("DELETE", "/images/told:1")
    told = past(own_daemon, filters={"type": ["image"]})[-4:]
    assert {event["Actor"]["ID"] for event in told} == {image}
    assert [(event["Action"], event["Actor"]["Attributes"]) for event in told] == [
        ("tag", {"l": "m", "name": "told:1"}),
        ("import", {"l": "m", "name": image}),
        ("untag", {"name": "told:1"}),
        ("delete", {"name": image}),
    ]


def test_a_commit_tells_of_the_image_and_the_container(daemon: Daemon, container: Callable[..., str]) -> None:
    """create, tag, and then commit."""
    one = container("true", Labels={"k": "v"})
    image = post(daemon, f"/commit?container={one}&repo=told&tag=2&comment=why", {}, status=201)["Id"]
    try:
        assert [
            (event["Action"], event["Actor"]["Attributes"]) for event in past(daemon, filters={"image": [image]})
        ] == [
            ("create", {"k": "v", "name": image}),
            ("tag", {"k": "v", "name": "told:2"}),
        ]
        commit = past(daemon, filters={"container": [one]})[-1]
        assert commit["Action"] == "commit"
        assert attributes_of(commit) == {"k": "v", "comment": "why", "imageID": image, "imageRef": "told:2"}
    finally:
        daemon.request("DELETE", "/images/told:2")


def test_a_client_that_leaves_is_gone_at_once(own_daemon: Daemon) -> None:
    """Without an event to wake for: neither its thread nor its subscription stays."""
    assert listeners(own_daemon) == 0
    connections = [own_daemon.connection() for _ in range(20)]
    for connection in connections:
        assert connection.open_stream("GET", "/events")[0] == 200
    assert listeners(own_daemon) == 20
    threads = thread_count(own_daemon)
    for connection in connections:
        connection.__exit__(None, None, None)
    until(lambda: listeners(own_daemon) == 0, seconds=10)
    until(lambda: thread_count(own_daemon) <= threads - 20, seconds=10)


@pytest.mark.alone
def test_who_listens_does_not_keep_the_daemon_from_ending(own_daemon: Daemon) -> None:
    """It is hung up on, at once."""
    with listening(own_daemon) as listener:
        began = time.monotonic()
        own_daemon.stop()
        assert time.monotonic() - began < 3
        assert listener.connection.read_to_end() == b""
    own_daemon.start()


def test_who_listens_and_hears_nothing_costs_no_time(own_daemon: Daemon) -> None:
    """Fifty streams, and the daemon does not wake for any of them."""
    connections = [own_daemon.connection() for _ in range(50)]
    for connection in connections:
        connection.open_stream("GET", "/events")
    until(lambda: listeners(own_daemon) == 50 and asleep(own_daemon))
    before = switches(own_daemon)
    time.sleep(1.5)
    assert switches(own_daemon) - before < 20
    for connection in connections:
        connection.__exit__(None, None, None)


def listeners(daemon: Daemon) -> int:
    """How many listen to events."""
    return daemon.request("GET", "/info").json()["NEventsListener"]


def thread_count(daemon: Daemon) -> int:
    """How many threads the daemon has."""
    return len(os.listdir(f"/proc/{daemon.pid}/task"))


def asleep(daemon: Daemon) -> bool:
    """Whether none of its threads has anything to do."""
    paths = [f"/proc/{daemon.pid}/task/{thread}/stat" for thread in os.listdir(f"/proc/{daemon.pid}/task")]
    return all(os.path.exists(path) and Path(path).read_text().rpartition(")")[2].split()[0] == "S" for path in paths)


def switches(daemon: Daemon) -> int:
    """How often any of its threads has gone to sleep."""
    total = 0
    for thread in os.listdir(f"/proc/{daemon.pid}/task"):
        with open(f"/proc/{daemon.pid}/task/{thread}/status") as status:
            total += next(int(line.split()[1]) for line in status if line.startswith("voluntary_ctxt_switches"))
    return total


_RESIZED = b'"Action":"resize"'


class Readers:
    """Clients that count the events of one kind as fast as they come, all in one thread, as bytes."""

    def __init__(self, daemon: Daemon, count: int) -> None:
        self._sockets = [subscribed(daemon, filters={"event": ["resize"]}) for _ in range(count)]
        self._last = dict.fromkeys(self._sockets, b"")
        self.seen = dict.fromkeys(self._sockets, 0)

    def read(self, wanted: int, seconds: float) -> None:
        """Read until everybody has seen so many."""
        end = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            for each in self._sockets:
                selector.register(each, selectors.EVENT_READ)
            while selector.get_map() and time.monotonic() < end:
                for key, _ in selector.select(1):
                    data = self._last[key.fileobj] + key.fileobj.recv(1 << 18)
                    self.seen[key.fileobj] += data.count(_RESIZED)
                    self._last[key.fileobj] = data[-len(_RESIZED) + 1 :]
                    if self.seen[key.fileobj] >= wanted:
                        selector.unregister(key.fileobj)

    def close(self) -> None:
        """Leave."""
        for each in self._sockets:
            each.close()


def subscribed(daemon: Daemon, **parameters: object) -> socket.socket:
    """A connection that has asked for events and read nothing."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(daemon.socket))
    connection.sendall(f"GET /events?{query(**parameters)} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    return connection


def test_thousands_of_events_fifty_who_listen_and_one_who_does_not(own_daemon: Daemon) -> None:
    """Each of them hears everything, the one that is stuck slows nobody, and is dropped in the end."""
    count, writers = amount(10_000, 2_000), 4
    made = [own_daemon.create("sleep", "1000", Tty=True) for _ in range(writers)]
    for each in made:
        own_daemon.begin(each)
    readers, stuck = Readers(own_daemon, 49), subscribed(own_daemon)
    until(lambda: listeners(own_daemon) == 50)
    slowest: list[float] = []

    def resize(container: str) -> None:
        with own_daemon.connection() as connection:
            for number in range(count // writers):
                began = time.monotonic()
                answer = connection.request("POST", f"/containers/{container}/resize?h=20&w={number % 50 + 1}")
                slowest.append(time.monotonic() - began)
                assert answer.status == 200, answer

    threads = [threading.Thread(target=resize, args=(container,)) for container in made]
    for thread in threads:
        thread.start()
    readers.read(count, seconds=patient(100))
    for thread in threads:
        thread.join()
    assert set(readers.seen.values()) == {count}
    assert max(slowest) < patient(20)
    stuck.close()
    readers.close()
    until(lambda: listeners(own_daemon) == 0)
