"""gRPC calls between this engine and grpcio, the oracle, with each of them as the client and as the server."""

import contextlib
import itertools
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Annotated, Any, TypedDict

import grpc
import pytest

from engine.daemon.buildkit import calling, serving
from engine.daemon.buildkit.link import Link, Lost
from engine.errors import Conflict, EngineError, NotFound, SystemFailure
from engine.protocols import grpc as ours
from engine.protocols import hpack, http2, http2frames, protobuf
from tests.harness.descriptors import none_left
from tests.harness.links import running

LONG = 20  # seconds within which a call ends on any machine
BIG = "x" * 5_000_000


class Word(TypedDict, total=False):
    """The message of all calls here."""

    text: Annotated[str, 1]
    number: Annotated[int, 2]


def packed(word: Word) -> bytes:
    return protobuf.encode(Word, word)


def unpacked(data: bytes) -> Word:
    return protobuf.decode(Word, data)


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[socket.socket]:
    """A listening socket, whose name is short."""
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "s"))
        made.listen()
        made.settimeout(LONG)
        yield made


@contextlib.contextmanager
def served(listening: socket.socket, run: Callable[[Any], None]) -> Iterator[grpc.Channel]:
    """A channel of grpcio to this engine, which serves one method, /a.B/C. It connects with its first call."""
    links: list[Link] = []

    def serve() -> None:
        peer, _ = listening.accept()
        links.append(Link(peer, False, serving.Server({"/a.B/C": serving.Method(Word, Word, run)}.get).accept))
        links[0].run()

    thread = threading.Thread(target=serve)
    thread.start()
    options = [("grpc.max_receive_message_length", -1), ("grpc.enable_http_proxy", 0)]
    try:
        with grpc.insecure_channel(f"unix:{listening.getsockname()}", options) as channel:
            yield channel
    finally:
        for link in links:
            link.close()
        thread.join(LONG)
        assert not thread.is_alive()


def one_for_one(channel: grpc.Channel, path: str = "/a.B/C") -> Any:
    return channel.unary_unary(path, packed, unpacked)


def both_ways(channel: grpc.Channel) -> Any:
    return channel.stream_stream("/a.B/C", packed, unpacked)


def echo(call: serving.Call[Word, Word]) -> None:
    for word in call.every():
        call.send(word)


class TestServing:
    """grpcio is the client."""

    @pytest.mark.parametrize("text", ["", "short", BIG], ids=["empty", "short", "five megabytes"])
    def test_a_message_for_a_message(self, listening: socket.socket, text: str) -> None:
        with served(listening, lambda call: call.send(call.one())) as channel:
            assert one_for_one(channel)({"text": text, "number": -3}, timeout=LONG) == {"text": text, "number": -3}

    def test_a_conversation(self, listening: socket.socket) -> None:
        words = [{"text": str(number) * number, "number": number} for number in range(300)]
        with served(listening, echo) as channel:
            assert list(both_ways(channel)(iter(words), timeout=LONG)) == words

    def test_many_calls_at_a_time(self, listening: socket.socket) -> None:
        with served(listening, lambda call: call.send(call.one())) as channel:
            asked = [one_for_one(channel).future({"number": number}, timeout=LONG) for number in range(200)]
            assert [each.result()["number"] for each in asked] == list(range(200))

    @pytest.mark.parametrize(
        ("error", "code"),
        [
            (NotFound("no such thing: ü 100%\n"), grpc.StatusCode.NOT_FOUND),
            (Conflict("in use"), grpc.StatusCode.FAILED_PRECONDITION),
            (SystemFailure("the disk is full"), grpc.StatusCode.UNKNOWN),
            (ours.Failed(ours.Status(ours.ABORTED, "later", b"\0\1\2")), grpc.StatusCode.ABORTED),
        ],
        ids=["not found", "conflict", "any other", "a status"],
    )
    @pytest.mark.parametrize("first", [False, True], ids=["at once", "after an answer"])
    def test_an_error(self, listening: socket.socket, error: EngineError, code: grpc.StatusCode, first: bool) -> None:
        def fail(call: serving.Call[Word, Word]) -> None:
            if first:
                call.send({})
            raise error

        with served(listening, fail) as channel, pytest.raises(grpc.RpcError) as caught:
            list(both_ways(channel)(iter([]), timeout=LONG))
        assert (caught.value.code(), caught.value.details()) == (code, str(error))
        told = dict(caught.value.trailing_metadata())
        assert told.get("grpc-status-details-bin") == (b"\0\1\2" if isinstance(error, ours.Failed) else None)

    def test_a_fault_of_the_method_is_told_in_general_words(self, listening: socket.socket) -> None:
        with served(listening, lambda call: 1 / 0) as channel, pytest.raises(grpc.RpcError) as caught:  # type: ignore[arg-type, return-value]
            one_for_one(channel)({}, timeout=LONG)
        assert caught.value.code() == grpc.StatusCode.INTERNAL
        assert "zero" not in caught.value.details()

    def test_an_unknown_method(self, listening: socket.socket) -> None:
        with served(listening, echo) as channel, pytest.raises(grpc.RpcError) as caught:
            one_for_one(channel, "/a.B/D")({}, timeout=LONG)
        assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED
        assert caught.value.details() == "unknown method /a.B/D"

    def test_a_message_that_is_none(self, listening: socket.socket) -> None:
        with served(listening, echo) as channel, pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary("/a.B/C", lambda data: data, bytes)(b"\xff", timeout=LONG)
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT

    def test_a_message_that_is_too_large_is_not_taken(self, listening: socket.socket) -> None:
        with served(listening, echo) as channel, pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary("/a.B/C", lambda data: data, bytes)(bytes((16 << 20) + 1), timeout=LONG)
        assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED

    def test_a_deadline_ends_the_method(self, listening: socket.socket) -> None:
        raised: list[BaseException] = []

        def wait(call: serving.Call[Word, Word]) -> None:
            try:
                list(call.every())
            except EngineError as error:
                raised.append(error)
                ended.set()
                raise

        def forever() -> Iterator[Word]:
            yield {}
            done.wait(LONG)

        done, ended = threading.Event(), threading.Event()
        with served(listening, wait) as channel, pytest.raises(grpc.RpcError) as caught:
            try:
                list(both_ways(channel)(forever(), timeout=0.3))
            finally:
                done.set()
                assert ended.wait(LONG)
        assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        assert len(raised) == 1
        assert isinstance(raised[0], Lost | ours.Failed)  # whoever was first to see it

    def test_a_client_that_gives_up(self, listening: socket.socket) -> None:
        begun, lost = threading.Event(), threading.Event()

        def wait(call: serving.Call[Word, Word]) -> None:
            call.one()
            begun.set()
            try:
                list(call.every())
            except Lost:
                lost.set()
                raise

        def forever() -> Iterator[Word]:
            yield {}
            lost.wait(LONG)

        with served(listening, wait) as channel:
            call = both_ways(channel)(forever())
            assert begun.wait(LONG)
            call.cancel()
            assert lost.wait(LONG)

    def test_a_client_that_does_not_read_holds_nobody_else_up(self, listening: socket.socket) -> None:
        stuck = threading.Event()

        def flood(call: serving.Call[Word, Word]) -> None:
            if call.one()["number"]:
                for number in itertools.count():
                    call.send({"text": "y" * 100_000})
                    if number == 5:
                        stuck.set()
            call.send({"text": "for you"})

        with served(listening, flood) as channel:
            unread = both_ways(channel)(iter([{"number": 1}]))
            assert stuck.wait(LONG)
            assert one_for_one(channel)({}, timeout=LONG)["text"] == "for you"
            unread.cancel()


@contextlib.contextmanager
def oracle(tmp_path: Path, handler: grpc.RpcMethodHandler) -> Iterator[Link]:
    """A link to a server of grpcio, which serves one method, /a.B/C."""
    server = grpc.server(futures.ThreadPoolExecutor(8), options=[("grpc.max_receive_message_length", -1)])
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("a.B", {"C": handler})])
    server.add_insecure_port(f"unix:{tmp_path}/s")
    server.start()
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(f"{tmp_path}/s")
    try:
        with running(peer, True) as link:
            yield link
    finally:
        server.stop(None).wait(LONG)


def ask(link: Link, word: Word) -> Word:
    return calling.unary(link, "/a.B/C", Word, Word, word)


def asked_by_hand(peer: socket.socket, window: int) -> http2.Connection:
    """A call with trailers, from a client that gives this window to streams."""
    connection = http2.Connection(client=True)
    connection.to_send()
    first = http2.PREFACE + struct.pack(">HBBBIHI", 0, 6, 4, 0, 0, 4, window)
    head = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/a.B/C"), (b"content-type", ours.CONTENT_TYPE)]
    stream = connection.open(head)
    connection.data(stream, ours.message(b""))
    connection.headers(stream, [(b"x", b"y")], ended=True)
    peer.sendall(first + connection.to_send())
    return connection


def test_a_client_that_has_said_all_and_goes_ends_the_answer() -> None:
    """It has sent trailers, and gives no room for an answer."""
    ended = threading.Event()

    def flood(call: serving.Call[Word, Word]) -> None:
        try:
            for _ in itertools.count():
                call.send({"text": "y" * 1000})
        finally:
            ended.set()

    near, far = socket.socketpair()
    with running(far, False, {"/a.B/C": serving.Method(Word, Word, flood)}):
        asked_by_hand(near, 0)
        assert not ended.wait(0.2)
        near.close()
        assert ended.wait(LONG)


def test_words_that_are_no_text_end_a_call_all_the_same(listening: socket.socket) -> None:
    def fail(_: serving.Call[Word, Word]) -> None:
        raise NotFound("no such file: \udcff")

    with served(listening, fail) as channel, pytest.raises(grpc.RpcError) as caught:
        one_for_one(channel)({}, timeout=LONG)
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND


def test_too_many_calls_are_refused_until_some_have_ended() -> None:
    """Those count whose clients have given them up, too: their threads are still there."""
    go_on, count = threading.Event(), itertools.count(1)
    running_now = 0

    def wait(_: serving.Call[Word, Word]) -> None:
        nonlocal running_now
        running_now = next(count)
        go_on.wait(LONG)

    near, far = socket.socketpair()
    with running(far, False, {"/a.B/C": serving.Method(Word, Word, wait)}), running(near, True) as link:
        for _ in range(90):
            with calling.Outgoing(link, "/a.B/C", Word, Word, []) as call:
                call.end()
        until = threading.Event()
        for _ in range(200):
            if running_now >= 90:
                break
            until.wait(0.05)
        calls = [calling.Outgoing(link, "/a.B/C", Word, Word, []) for _ in range(20)]
        refused = 0
        go_on_later = threading.Timer(0.3, go_on.set)
        go_on_later.start()
        for call in calls:
            try:
                call.end()
                call.receive()
            except Lost:
                refused += 1
        assert refused == 10


def test_a_link_that_never_runs_has_no_descriptor_but_its_own() -> None:
    near, far = socket.socketpair()
    with near, far:
        with none_left():
            Link(near, True)


def test_what_nobody_reads_is_given_back_to_the_connection() -> None:
    """Else some hundred calls that were left would stop all others."""

    def large(call: serving.Call[Word, Word]) -> None:
        call.send({"text": "z" * 900_000})

    near, far = socket.socketpair()
    with running(far, False, {"/a.B/C": serving.Method(Word, Word, large)}), running(near, True) as link:
        for _ in range(12):
            with calling.Outgoing(link, "/a.B/C", Word, Word, []) as call:
                call.end()
                call.stream.answered()
        assert len(ask(link, {})["text"]) == 900_000


def test_a_frame_of_nothing_but_padding_is_not_the_end() -> None:
    near, far = socket.socketpair()
    with far, running(near, True) as link, calling.Outgoing(link, "/a.B/C", Word, Word, []) as call:
        peer = http2.Connection(False)
        fields = hpack.Encoder().encode([(b":status", b"200"), (b"content-type", b"application/grpc")])
        word = ours.message(packed({"text": "after"}))

        def frame(kind: int, flags: int, payload: bytes) -> bytes:
            return http2frames.HEAD.pack(0, len(payload), kind, flags, call.stream.number) + payload

        far.sendall(peer.to_send() + frame(http2frames.HEADERS, http2frames.END_HEADERS, fields))
        far.sendall(frame(http2frames.DATA, http2frames.PADDED, b"\2\0\0"))
        threading.Timer(0.1, far.sendall, (frame(http2frames.DATA, 0, word),)).start()
        assert call.receive() == {"text": "after", "number": 0}


class TestCalling:
    """grpcio is the server."""

    @pytest.mark.parametrize("text", ["", "short", BIG], ids=["empty", "short", "five megabytes"])
    def test_a_message_for_a_message(self, tmp_path: Path, text: str) -> None:
        handler = grpc.unary_unary_rpc_method_handler(lambda word, _: word, unpacked, packed)
        with oracle(tmp_path, handler) as link:
            assert ask(link, {"text": text, "number": 7}) == {"text": text, "number": 7}
            assert not link.http.streams()

    def test_a_conversation(self, tmp_path: Path) -> None:
        handler = grpc.stream_stream_rpc_method_handler(lambda words, _: words, unpacked, packed)
        words: list[Word] = [{"text": str(number) * number, "number": number} for number in range(300)]
        with oracle(tmp_path, handler) as link, calling.Outgoing(link, "/a.B/C", Word, Word, []) as call:
            got = []
            for word in words:
                call.send(word)
                got.append(call.receive())
            call.end()
            assert call.receive() is None
        assert got == words

    def test_a_status(self, tmp_path: Path) -> None:
        def refuse(_: Word, context: grpc.ServicerContext) -> Word:
            context.set_trailing_metadata((("grpc-status-details-bin", b"\0\1\2"),))
            context.abort(grpc.StatusCode.NOT_FOUND, "no such secret: ü")

        handler = grpc.unary_unary_rpc_method_handler(refuse, unpacked, packed)
        with oracle(tmp_path, handler) as link, pytest.raises(ours.Failed) as caught:
            ask(link, {})
        assert caught.value.status == ours.Status(ours.NOT_FOUND, "no such secret: ü", b"\0\1\2")

    def test_an_unknown_method(self, tmp_path: Path) -> None:
        handler = grpc.unary_unary_rpc_method_handler(lambda word, _: word, unpacked, packed)
        with oracle(tmp_path, handler) as link, pytest.raises(ours.Failed) as caught:
            calling.unary(link, "/a.B/D", Word, Word, {})
        assert caught.value.status.code == ours.UNIMPLEMENTED

    def test_a_call_that_is_left_is_cancelled(self, tmp_path: Path) -> None:
        ended = threading.Event()

        def answer(_: Any, context: grpc.ServicerContext) -> Iterator[Word]:
            context.add_callback(ended.set)
            yield {"number": 1}
            ended.wait(LONG)

        handler = grpc.stream_stream_rpc_method_handler(answer, unpacked, packed)
        with oracle(tmp_path, handler) as link:
            with calling.Outgoing(link, "/a.B/C", Word, Word, []) as call:
                assert call.receive() == {"text": "", "number": 1}
            assert ended.wait(LONG)

    def test_an_answer_that_does_not_wait_for_the_question(self) -> None:
        """Whoever is still sending is told that nobody reads it, and gets the answer."""

        def refuse(_: serving.Call[Word, Word]) -> None:
            raise NotFound("not here")

        near, far = socket.socketpair()
        with running(far, False, {"/a.B/C": serving.Method(Word, Word, refuse)}), running(near, True) as link:
            for _ in range(30):
                with pytest.raises(ours.Failed, match="not here"):
                    ask(link, {"text": BIG})

    def test_the_end_of_the_connection_ends_all_calls(self, tmp_path: Path) -> None:
        began = threading.Barrier(3)
        caught: list[type] = []

        def wait(link: Link) -> None:
            with calling.Outgoing(link, "/a.B/C", Word, Word, []) as call:
                began.wait(LONG)
                try:
                    call.receive()
                except Lost as error:
                    caught.append(type(error))

        ours_end, theirs = socket.socketpair()
        with running(ours_end, True) as link:
            threads = [threading.Thread(target=wait, args=(link,)) for _ in range(2)]
            for thread in threads:
                thread.start()
            began.wait(LONG)
            theirs.close()
            for thread in threads:
                thread.join(LONG)
            assert caught == [Lost, Lost]
            with pytest.raises(Lost):
                ask(link, {})
