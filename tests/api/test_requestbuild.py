"""POST /build with `version=2`: BuildKit, as clients asked for it before buildx; and POST /build/cancel."""

import base64
import json
import threading
import time
import uuid
from urllib.parse import quote, urlencode

import pytest

from engine.daemon.buildkit.messages.control import StatusResponse
from engine.protocols import protobuf
from tests.api.building import TAR, config_of, context, unique
from tests.harness.daemon import Daemon
from tests.harness.http import Answer

LONG = 60


def ask(daemon: Daemon, files: dict[str, str] | str, **query: object) -> Answer:
    """Build a context."""
    return ask_with(daemon, context({"Dockerfile": files} if isinstance(files, str) else files), **query)


def ask_with(daemon: Daemon, body: bytes, **query: object) -> Answer:
    """Build a context that is packed already."""
    words = urlencode([("version", "2"), *query.items()], doseq=True)
    with daemon.connection(LONG) as connection:
        return connection.request("POST", f"/build?{words}", body, TAR)


def events(answer: Answer) -> list[StatusResponse]:
    """The messages of progress in an answer."""
    assert answer.status == 200, answer
    traces = [line["aux"] for line in answer.lines if line.get("id") == "moby.buildkit.trace"]
    return [protobuf.decode(StatusResponse, base64.b64decode(trace)) for trace in traces]


def written(answer: Answer) -> str:
    """What the commands have written."""
    return b"".join(log["msg"] for event in events(answer) for log in event["logs"]).decode()


def image(answer: Answer) -> str:
    """The image that was made."""
    (line,) = (line for line in answer.lines if line.get("id") == "moby.image.id")
    assert answer.lines[-1] is line or answer.lines[-1] == line
    return line["aux"]["ID"]


def test_a_context_in_the_body_is_built(daemon: Daemon, busybox: str) -> None:
    word, name = unique(), f"two-{uuid.uuid4().hex[:8]}"
    answer = ask(
        daemon,
        {"Dockerfile": f"FROM busybox\nARG x\nCOPY f /f\nRUN cat /f; echo $x {word}\n", "f": "a file\n"},
        t=[name, f"{name}:b"],
        buildargs=json.dumps({"x": "hello", "y": None}),
        labels=json.dumps({"l": "v"}),
    )
    assert written(answer) == f"a file\nhello {word}\n"
    names = {vertex["name"] for event in events(answer) for vertex in event["vertexes"]}
    assert any(each.startswith("[2/3] COPY f /f") for each in names), names
    assert daemon.request("GET", f"/images/{name}:b/json").json()["Id"] == image(answer)
    assert config_of(daemon, name)["Labels"] == {"l": "v"}
    daemon.request("DELETE", f"/images/{name}?force=1")
    daemon.request("DELETE", f"/images/{name}:b?force=1")


def test_the_hosts_network_is_allowed_to_whoever_asks_for_it(daemon: Daemon, busybox: str) -> None:
    """This API has no entitlements; the network says it."""
    answer = ask(daemon, f"FROM busybox\nRUN ls /sys/class/net; echo {unique()}\n", networkmode="host")
    assert "lo\n" in written(answer) and image(answer)


def test_the_image_that_was_made_is_told(daemon: Daemon, busybox: str) -> None:
    """As the classic builder tells it, whether the image has a name or none."""
    began = time.time()
    made = image(ask(daemon, "FROM busybox\nLABEL told=yes\n"))
    filters = json.dumps({"type": ["image"], "event": ["create"]})
    path = f"/events?since={began:.9f}&until={time.time():.9f}&filters={quote(filters)}"
    assert [event["Actor"]["ID"] for event in daemon.request("GET", path).lines] == [made]


def test_a_quiet_build_tells_the_image_alone(daemon: Daemon, busybox: str) -> None:
    answer = ask(daemon, f"FROM busybox\nLABEL l={unique()}\n", q=1)
    (line,) = answer.lines
    assert line["stream"].startswith("sha256:") and line["stream"].endswith("\n")


def test_limits_hold_for_the_steps(daemon: Daemon, busybox: str) -> None:
    id, answers = uuid.uuid4().hex, list[Answer]()
    query = {"cpuperiod": 100000, "cpuquota": 50000, "memory": 0, "buildid": id}
    dockerfile = f"FROM busybox\nRUN echo {unique()}; sleep 1000\n"
    thread = threading.Thread(target=lambda: answers.append(ask(daemon, dockerfile, **query)))
    thread.start()
    end = time.monotonic() + LONG
    while not (running := daemon.request("GET", "/containers/json").json()):
        assert time.monotonic() < end and not answers, answers
        time.sleep(0.05)
    config = daemon.request("GET", f"/containers/{running[0]['Id']}/json").json()["HostConfig"]
    daemon.request("POST", f"/build/cancel?id={id}", checked=False)
    thread.join(LONG)
    assert (config["CpuPeriod"], config["CpuQuota"], config["Memory"]) == (100000, 50000, 0)


def test_a_failure_is_the_last_line(daemon: Daemon, busybox: str) -> None:
    answer = ask(daemon, f"FROM busybox\nRUN echo {unique()}; exit 3\n")
    last = answer.lines[-1]
    assert "did not complete successfully: exit code: 3" in last["error"]
    assert last["errorDetail"]["message"] == last["error"]
    missing = ask(daemon, {"other": ""})
    assert "Dockerfile" in (missing.lines[-1]["error"] if missing.status == 200 else missing.message)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"version": "3"}, "invalid version 3"),
        ({"squash": "1"}, "squash is not supported by BuildKit"),
        ({"networkmode": "bridge"}, 'network mode "bridge" not supported by buildkit'),
        ({"outputs": '[{"Type":"a"},{"Type":"b"}]'}, "multiple outputs not supported"),
        ({"outputs": '[{"Type":1}]'}, "error reading outputs"),
        ({"outputs": "["}, "error reading outputs"),
        ({"buildargs": "[]"}, "error reading buildargs"),
        ({"ulimits": '[{"Name":1}]'}, "error reading ulimits"),
        ({"extrahosts": "x"}, "invalid host x"),
        ({"platform": "a/b/c/d/e"}, "platform"),
        ({"t": "BAD"}, "must be lowercase"),
        ({"t": "a@sha256:" + "a" * 64}, "cannot contain a digest"),
        ({"cachefrom": "[1]"}, "error reading cachefrom"),
    ],
)
def test_what_is_refused(daemon: Daemon, query: dict[str, str], words: str) -> None:
    path = f"/build?{urlencode({'version': '2', **query})}"
    answer = daemon.request("POST", path, context({"Dockerfile": "FROM busybox\n"}), TAR)
    assert answer.status == 400 and words in answer.message, answer


def test_a_secret_needs_a_session(daemon: Daemon, busybox: str) -> None:
    answer = ask(daemon, f"FROM busybox\nRUN --mount=type=secret,id=s,required=true echo {unique()}\n")
    assert "error" in answer.lines[-1]


def test_the_body_comes_by_another_request(daemon: Daemon, busybox: str) -> None:
    id, word = uuid.uuid4().hex, unique()
    words = urlencode({"version": "2", "buildid": f"upload-request:{id}"})
    sent = context({"Dockerfile": f"FROM busybox\nRUN echo {word}\n"})
    brought: list[Answer] = []
    thread = threading.Thread(target=lambda: brought.append(daemon.request("POST", f"/build?{words}", sent, TAR)))
    thread.start()
    words = urlencode({"version": "2", "buildid": id, "remote": "upload-request"})
    answer = daemon.request("POST", f"/build?{words}", timeout=LONG)
    thread.join(LONG)
    assert brought[0].status == 200
    assert written(answer) == f"{word}\n"


def test_a_build_is_cancelled(daemon: Daemon, busybox: str) -> None:
    id, answers = uuid.uuid4().hex, list[Answer]()
    dockerfile = f"FROM busybox\nRUN echo {unique()}; sleep 1000\n"
    thread = threading.Thread(target=lambda: answers.append(ask(daemon, dockerfile, buildid=id)))
    thread.start()
    end = time.monotonic() + LONG
    while thread.is_alive():  # it can be cancelled as soon as it runs
        assert time.monotonic() < end
        answer = daemon.request("POST", f"/build/cancel?id={id}", checked=False)
        assert (answer.status, answer.body) == (200, b"")
        time.sleep(0.05)
    (cancelled,) = answers
    said = cancelled.lines[-1]["error"] if cancelled.status == 200 else cancelled.message
    assert "cancel" in said
    refused = daemon.request("POST", "/build/cancel", checked=False)
    assert (refused.status, refused.message) == (400, "build ID not provided")


def test_a_client_that_goes_ends_its_build(daemon: Daemon, busybox: str) -> None:
    with daemon.connection(LONG) as connection:
        sent = context({"Dockerfile": f"FROM busybox\nRUN echo {unique()}; sleep 1000\n"})
        head = f"POST /build?version=2 HTTP/1.1\r\nHost: x\r\nContent-Length: {len(sent)}\r\n\r\n"
        connection.send(head.encode() + sent)
        end = time.monotonic() + LONG
        while not daemon.request("GET", "/containers/json").json():
            assert time.monotonic() < end
            time.sleep(0.05)
    while daemon.request("GET", "/containers/json").json():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_the_ping_names_it(daemon: Daemon) -> None:
    assert daemon.request("GET", "/_ping").headers["builder-version"] == "2"
