"""BuildKit's API on the daemon's own socket: the upgrade, what it says of itself, and clients that mean harm."""

import contextlib
import json
import os
import socket
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from engine.daemon.buildkit import methods
from engine.daemon.buildkit.calling import unary
from engine.daemon.buildkit.link import Link, Lost
from engine.daemon.buildkit.messages import content, control, gateway
from engine.daemon.buildkit.messages.worker import GCPolicy
from engine.protocols import grpc as ours
from engine.protocols import http2, protobuf
from engine.protocols import http2frames as frames
from tests.harness.daemon import Daemon
from tests.harness.frontends import UPGRADE, dial
from tests.harness.links import LONG, running


@contextlib.contextmanager
def linked(daemon: Daemon) -> Iterator[Link]:
    """The API, as a client calls it."""
    with running(dial(daemon, "/grpc"), True) as link:
        yield link


@pytest.mark.parametrize("path", ["/grpc", "/session"])
def test_who_does_not_ask_for_http_2_is_told(daemon: Daemon, path: str) -> None:
    """In BuildKit's words."""
    answer = daemon.request("POST", path)
    assert (answer.status, answer.message) == (400, "no upgrade proto in request")
    answer = daemon.request("POST", path, headers={"Connection": "Upgrade", "Upgrade": "foo"})
    assert (answer.status, answer.message) == (400, "protocol foo not supported")


def test_a_session_has_an_id(daemon: Daemon) -> None:
    answer = daemon.request("POST", "/session", headers={"Connection": "Upgrade", "Upgrade": "h2c"})
    assert answer.status == 400 and "X-Docker-Expose-Session-Uuid" in answer.message


def test_the_worker(daemon: Daemon) -> None:
    with linked(daemon) as link:
        path = methods.CONTROL + "ListWorkers"
        (found,) = unary(link, path, control.ListWorkersRequest, control.ListWorkersResponse, {})["record"]
        assert found["ID"] == daemon.request("GET", "/info").json()["ID"]
        assert found["platforms"][0]["OS"] == "linux"
        told = unary(link, methods.CONTROL + "Info", control.InfoRequest, control.InfoResponse, {})
        assert told["buildkitVersion"]["package"] == "github.com/moby/buildkit"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"Frontend": "moon.v0"}, "the frontend moon.v0 is not built in this engine"),
        ({"EnableSessionExporter": True}, "exporting through the session is not built in this engine"),
        ({"ProxyNetwork": True}, "a network that leads through a proxy of the builder is not built in this engine"),
        ({"CompatibilityVersion": 10}, "a result as another version of BuildKit makes it is not built in this engine"),
        ({"Cache": {"Exports": [{"Type": "gha"}]}}, "the cache gha (--cache-to) is not built in this engine"),
        ({"Exporters": [{"Type": "x"}]}, "the exporter x (--output) is not built in this engine"),
        (
            {"Frontend": "dockerfile.v0", "FrontendAttrs": {"unheard-of": "1"}},
            "the option unheard-of of dockerfile.v0 is not built in this engine",
        ),
    ],
)
def test_what_is_not_built_is_named(daemon: Daemon, more: control.SolveRequest, words: str) -> None:
    asked: control.SolveRequest = {"Ref": uuid.uuid4().hex, "Session": "none", **more}
    with linked(daemon) as link, pytest.raises(ours.Failed) as caught:
        unary(link, methods.CONTROL + "Solve", control.SolveRequest, control.SolveResponse, asked)
    assert caught.value.status.code == ours.UNIMPLEMENTED
    assert words in caught.value.status.words


def test_a_session_that_never_comes(daemon: Daemon) -> None:
    asked: control.SolveRequest = {"Ref": uuid.uuid4().hex, "Session": "none", "Frontend": "dockerfile.v0"}
    with linked(daemon) as link, pytest.raises(ours.Failed) as caught:
        unary(link, methods.CONTROL + "Solve", control.SolveRequest, control.SolveResponse, asked)
    assert caught.value.status.code == ours.UNKNOWN
    assert "no active session for none" in caught.value.status.words


def test_a_build_that_nobody_begins(daemon: Daemon) -> None:
    with linked(daemon) as link, pytest.raises(ours.Failed) as caught:
        unary(link, methods.GATEWAY + "Ping", gateway.PingRequest, gateway.PongResponse, {})
    assert (caught.value.status.code, caught.value.status.words) == (ours.NOT_FOUND, "no such job ")


def test_hostile_bytes_end_in_words(daemon: Daemon) -> None:
    """Of every method: what is no message, what lies too deep, and any bytes at all; the daemon serves on."""
    deep = b""
    for _ in range(150):
        deep = b"\x12" + protobuf._varint(len(deep)) + deep
    served = [path for path in methods.TABLES if path.startswith((methods.CONTROL, methods.GATEWAY))]
    with linked(daemon) as link:
        for path in (*served, "/x.Y/Z", "", "/"):
            for data in (b"\xff", b"\x0a\xff\xff\xff\xff\x0f", deep, os.urandom(50), b"\x0a\x05\xff\xff\xff\xff\xff"):
                stream = link.open(
                    [
                        (b":method", b"POST"),
                        (b":scheme", b"http"),
                        (b":path", path.encode() or b"?"),
                        (b"content-type", ours.CONTENT_TYPE),
                    ]
                )
                stream.deadline = None
                with contextlib.suppress(Lost):
                    stream.send(data)
                    stream.end()
                    if path.endswith("Status") and data not in (b"\xff", deep):
                        stream.cancel()  # it would wait some seconds for a build of that name
                        continue
                    while stream.receive() is not None:
                        pass
                    status = ours.status_of(stream.ending())
                    assert status.code not in (ours.OK, ours.INTERNAL) or path.endswith(("ListWorkers", "Info")), path
    assert daemon.request("GET", "/_ping").status == 200


def test_what_is_no_http_2_ends_the_connection_alone(daemon: Daemon) -> None:
    for path, fields in (
        ("/grpc", UPGRADE),
        ("/session", f"{UPGRADE}X-Docker-Expose-Session-Uuid: {uuid.uuid4().hex}\r\n"),
    ):
        with dial(daemon, path, fields) as peer:
            peer.sendall(b"GET / HTTP/1.1\r\n\r\n" * 10)
            while peer.recv(65536):
                pass
    assert daemon.request("GET", "/_ping").status == 200


def workers(link: Link) -> int:
    """How many workers the daemon names."""
    path = methods.CONTROL + "ListWorkers"
    return len(unary(link, path, control.ListWorkersRequest, control.ListWorkersResponse, {})["record"])


def direct(daemon: Daemon) -> socket.socket:
    """A connection on which nothing was said."""
    peer = socket.socket(socket.AF_UNIX)
    peer.settimeout(LONG)
    peer.connect(str(daemon.socket))
    return peer


def test_http_2_needs_no_upgrade(daemon: Daemon) -> None:
    """As grpcio speaks it, which brings its own, and this tree's own."""
    with grpc.insecure_channel(f"unix:{daemon.socket}") as channel:
        data = channel.unary_unary(methods.CONTROL + "ListWorkers", bytes, bytes)(b"", timeout=LONG)
        assert len(protobuf.decode(control.ListWorkersResponse, data)["record"]) == 1
    with direct(daemon) as peer, running(peer, True) as link:
        assert workers(link) == 1


def test_http_2_may_begin_byte_by_byte_and_after_a_request_of_http_1(daemon: Daemon) -> None:
    with direct(daemon) as peer:
        peer.sendall(b"GET /_ping HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = b""
        while not answer.endswith(b"\r\n\r\nOK"):
            answer += peer.recv(1)
        for byte in http2.Connection(True).to_send():
            peer.sendall(bytes((byte,)))
        head = peer.recv(frames.HEAD.size, socket.MSG_WAITALL)
        assert frames.HEAD.unpack(head)[2] == frames.SETTINGS


@pytest.mark.parametrize("begun", [b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", b"PRI * HTTP/2.0\r\nHost: x\r\n\r\n"])
def test_what_begins_like_http_2_ends_the_connection_alone(daemon: Daemon, begun: bytes) -> None:
    with direct(daemon) as peer:
        peer.sendall(begun)
        while peer.recv(65536):
            pass
    assert daemon.request("GET", "/_ping").status == 200


def test_the_api_itself_is_not_served_in_http_2(daemon: Daemon) -> None:
    with direct(daemon) as peer, running(peer, True) as link:
        stream = link.open([(b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"x"), (b":path", b"/_ping")])
        stream.end()
        assert (b":status", b"501") in stream.answered()
        assert "HTTP/1.1" in json.loads(bytes(stream.body()))["message"]
        assert workers(link) == 1


def test_a_history_of_absurd_requests(daemon: Daemon, busybox: str) -> None:
    """Refs that no client gives, filters that no client sends, digests of what is no record's: each ends in words."""
    listen, update = methods.CONTROL + "ListenBuildHistory", methods.CONTROL + "UpdateBuildHistory"
    foreign = [daemon.request("GET", "/images/busybox/json").json()["Id"], f"sha256:{'0' * 64}"]
    with linked(daemon) as link:
        for ref in ("", "x" * 300, "a\nb"):
            asked: control.SolveRequest = {"Ref": ref, "Session": "none", "Frontend": "dockerfile.v0"}
            with pytest.raises(ours.Failed) as caught:
                unary(link, methods.CONTROL + "Solve", control.SolveRequest, control.SolveResponse, asked)
            assert caught.value.status.code == ours.INVALID_ARGUMENT
        for wrong in (
            {"Limit": -1},
            {"Filter": ["ref~=(a+"]},
            {"Filter": ["x" * 100_000]},
            {"Filter": ["duration>"]},
        ):
            request: control.BuildHistoryRequest = {"EarlyExit": True, **wrong}
            with pytest.raises(ours.Failed) as caught:
                unary(link, listen, control.BuildHistoryRequest, control.BuildHistoryEvent, request)
            assert caught.value.status.code == ours.INVALID_ARGUMENT, wrong
        with pytest.raises(ours.Failed) as caught:
            unary(
                *(link, update, control.UpdateBuildHistoryRequest, control.UpdateBuildHistoryResponse),
                {"Ref": "never", "Pinned": True},
            )
        assert caught.value.status.code == ours.NOT_FOUND
        for digest, code in [
            *((each, ours.NOT_FOUND) for each in foreign),
            *((each, ours.INVALID_ARGUMENT) for each in ("", "sha256:", "sha256:../../../etc/passwd", "x" * 1000)),
        ]:
            for method, message, answer in (
                ("Info", content.InfoRequest, content.InfoResponse),
                ("Read", content.ReadContentRequest, content.ReadContentResponse),
            ):
                with pytest.raises(ours.Failed) as caught:
                    unary(link, methods.CONTENT + method, message, answer, {"digest": digest})
                assert caught.value.status.code == code, digest


def test_a_flood_of_builds_leaves_a_bounded_history(daemon: Daemon) -> None:
    """Each of these fails at once; the daemon keeps what it says it keeps, and serves on."""
    with linked(daemon) as link:
        for _ in range(60):
            asked: control.SolveRequest = {
                "Ref": uuid.uuid4().hex,
                "Frontend": "gateway.v0",
                "FrontendAttrs": {"x" * 100: "y" * 1_000_000},
            }
            with pytest.raises(ours.Failed):
                unary(link, methods.CONTROL + "Solve", control.SolveRequest, control.SolveResponse, asked)
    database = daemon.data_root / "engine.db-wal"
    assert database.stat().st_size < 60 << 20
    assert daemon.request("GET", "/_ping").status == 200


def test_workers_are_chosen_by_filters(daemon: Daemon) -> None:
    id = daemon.request("GET", "/info").json()["ID"]

    def found(*filters: str) -> int:
        asked: control.ListWorkersRequest = {"filter": list(filters)}
        path = methods.CONTROL + "ListWorkers"
        return len(unary(link, path, control.ListWorkersRequest, control.ListWorkersResponse, asked)["record"])

    with linked(daemon) as link:
        assert found() == found(f"id=={id}") == found("id==x", f"id=={id}") == 1
        assert found('labels."org.mobyproject.buildkit.worker.executor"==engine') == 1
        assert found("labels.org.mobyproject.buildkit.worker.executor==engine") == 1
        assert found("id==x") == found("labels.unheard") == 0


def test_the_worker_tells_of_the_rules_of_its_cache(make_daemon: Callable[..., Daemon], tmp_path: Path) -> None:
    """Those of daemon.json, or the usual ones."""
    rules = [{"filter": ["until=1h", "type=regular"], "maxUsedSpace": "1gb"}, {"all": True}]
    (tmp_path / "daemon.json").write_text(json.dumps({"builder": {"gc": {"policy": rules}}}))
    path = methods.CONTROL + "ListWorkers"

    def told(daemon: Daemon) -> list[GCPolicy]:
        with linked(daemon) as link:
            (found,) = unary(link, path, control.ListWorkersRequest, control.ListWorkersResponse, {})["record"]
        return found["GCPolicy"]

    first, second = told(make_daemon("--config-file", str(tmp_path / "daemon.json")))
    assert (first["filters"], first["keepDuration"], first["maxUsedSpace"]) == (
        ["type==regular"],
        3600 * 10**9,
        1 << 30,
    )
    assert second["all"] and not second["filters"]
    first, _, third = told(make_daemon())
    assert first["filters"] == ["type==exec.cachemount", "type==source.local"] and first["keepDuration"]
    assert 0 < third["reservedSpace"] < third["maxUsedSpace"]
