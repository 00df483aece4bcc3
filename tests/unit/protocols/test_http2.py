"""HTTP/2 against the package `h2`, which plays the other end; and what a peer must not do, frame by frame."""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

import h2.config
import h2.connection
import h2.events
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import Invalid
from engine.protocols import hpack, http2frames
from engine.protocols.http2 import PREFACE, Connection
from engine.protocols.http2events import Broken, Data, GoneAway, Headers, Limits, Pong, Reset, Room

REQUEST = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/x"), (b"te", b"trailers")]
ANSWER = [(b":status", b"200")]
TRAILERS = [(b"grpc-status", b"0")]
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED = 1, 1, 4, 8


@dataclass
class Both:
    """One connection of which this end is ours and that end is h2's; what each has got of bodies, and our events."""

    client: bool
    ours: Connection = field(init=False)
    theirs: h2.connection.H2Connection = field(init=False)
    here: bytearray = field(default_factory=bytearray)
    there: bytearray = field(default_factory=bytearray)
    events: list[object] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ours = Connection(self.client, Limits(window=65_535))
        config = h2.config.H2Configuration(client_side=not self.client, header_encoding=None)
        self.theirs = h2.connection.H2Connection(config)
        self.theirs.initiate_connection()
        self.turn()

    def turn(self) -> None:
        """Let the two talk until both are silent."""
        while (out := self.ours.to_send()) or (back := self.theirs.data_to_send()):
            for event in self.theirs.receive_data(out) if out else ():
                if isinstance(event, h2.events.DataReceived):
                    self.there += event.data
                    self.theirs.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            back = self.theirs.data_to_send() if out else back
            for found in self.ours.receive(back):
                self.events.append(found)
                if isinstance(found, Data):
                    self.here += found.data
                    self.ours.consumed(found.stream, found.taken)

    def send(self, stream: int, body: bytes, pieces: int) -> None:
        """Our body goes there, as its windows let it."""
        for at in range(0, len(body), pieces):
            left = body[at : at + pieces]
            while left:
                left = left[self.ours.data(stream, left) :]
                self.turn()

    def hear(self, stream: int, body: bytes) -> None:
        """Their body comes here."""
        while body:
            room = min(self.theirs.local_flow_control_window(stream), self.theirs.max_outbound_frame_size)
            self.theirs.send_data(stream, body[:room])
            body = body[room:]
            self.turn()


@settings(max_examples=25)
@given(
    client=st.booleans(),
    out=st.integers(0, 200_000),
    back=st.integers(0, 200_000),
    pieces=st.integers(1, 100_000),
    large=st.integers(0, 40_000),
)
def test_bodies_and_fields_go_both_ways(client: bool, out: int, back: int, pieces: int, large: int) -> None:
    """Larger than windows and frames, with trailers at the end; then nothing of the stream is left."""
    both = Both(client)
    request = [*REQUEST[:3], (b":authority", b"here"), REQUEST[3], (b"x-large", b"v" * large)]
    if client:
        stream = both.ours.open(request)
        both.turn()
        both.theirs.send_headers(stream, ANSWER)
    else:
        stream = 1
        both.theirs.send_headers(stream, request)
        both.turn()
        both.ours.headers(stream, ANSWER)
    both.turn()
    both.send(stream, b"o" * out, max(pieces, out // 20))
    both.hear(stream, b"b" * back)
    if client:
        both.ours.data(stream, b"", ended=True)
        both.theirs.send_headers(stream, TRAILERS, end_stream=True)
    else:
        both.theirs.end_stream(stream)
        both.ours.headers(stream, TRAILERS, ended=True)
    both.turn()
    assert (bytes(both.here), bytes(both.there)) == (b"b" * back, b"o" * out)
    assert both.ours.streams() == 0
    fields = [event.fields for event in both.events if isinstance(event, Headers)]
    assert fields == ([ANSWER, TRAILERS] if client else [request])
    assert not [event for event in both.events if isinstance(event, Broken | Reset)]


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    """One frame."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def fields(*more: hpack.Field) -> bytes:
    """The block of a request."""
    return hpack.Encoder().encode([*REQUEST, *more])


def begun(limits: Limits | None = None) -> Connection:
    """A server to which a client has said its first words."""
    made = Connection(client=False, limits=limits)
    assert made.receive(PREFACE + frame(SETTINGS)) == [Room(0)]
    made.to_send()
    return made


OPENED = frame(HEADERS, END_HEADERS, 1, fields())


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (frame(PING, payload=b"1" * 7), http2frames.FRAME_SIZE_ERROR),
        (frame(PING, stream=1, payload=b"1" * 8), http2frames.PROTOCOL_ERROR),
        (frame(DATA, 0, 0, b"x"), http2frames.PROTOCOL_ERROR),
        (frame(DATA, 0, 1, b"x"), http2frames.PROTOCOL_ERROR),
        (frame(HEADERS, END_HEADERS, 0, fields()), http2frames.PROTOCOL_ERROR),
        (frame(HEADERS, END_HEADERS, 2, fields()), http2frames.PROTOCOL_ERROR),
        (frame(HEADERS, 0, 1, fields()) + frame(PING, payload=b"1" * 8), http2frames.PROTOCOL_ERROR),
        (frame(CONTINUATION, 0, 1, b""), http2frames.PROTOCOL_ERROR),
        (frame(HEADERS, END_HEADERS, 1, b"\xff"), http2frames.COMPRESSION_ERROR),
        (frame(HEADERS, END_HEADERS | PADDED, 1, b"\x05abc"), http2frames.PROTOCOL_ERROR),
        (frame(HEADERS, END_HEADERS | 0x20, 1, b"abc"), http2frames.FRAME_SIZE_ERROR),
        (frame(PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\2"), http2frames.PROTOCOL_ERROR),
        (frame(RST_STREAM, 0, 1, b"\0\0\0\0"), http2frames.PROTOCOL_ERROR),
        (frame(RST_STREAM, 0, 1, b"\0"), http2frames.FRAME_SIZE_ERROR),
        (frame(SETTINGS, 0, 1), http2frames.PROTOCOL_ERROR),
        (frame(SETTINGS, 0, 0, b"abc"), http2frames.FRAME_SIZE_ERROR),
        (frame(SETTINGS, ACK, 0, b"\0\1\0\0\0\0"), http2frames.FRAME_SIZE_ERROR),
        (frame(SETTINGS, 0, 0, b"\0\2\0\0\0\2"), http2frames.PROTOCOL_ERROR),
        (frame(SETTINGS, 0, 0, b"\0\4\x80\0\0\0"), http2frames.FLOW_CONTROL_ERROR),
        (frame(SETTINGS, 0, 0, b"\0\5\0\0\0\1"), http2frames.PROTOCOL_ERROR),
        (frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\0"), http2frames.PROTOCOL_ERROR),
        (frame(WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff"), http2frames.FLOW_CONTROL_ERROR),
        (frame(WINDOW_UPDATE, 0, 1, b"\0\0\0\1"), http2frames.PROTOCOL_ERROR),
        (frame(GOAWAY, 0, 1, b"\0" * 8), http2frames.PROTOCOL_ERROR),
        (frame(GOAWAY, 0, 0, b"\0" * 7), http2frames.FRAME_SIZE_ERROR),
        (frame(PRIORITY, 0, 1, b"\0"), http2frames.FRAME_SIZE_ERROR),
        (b"\0\x40\x01" + bytes(6), http2frames.FRAME_SIZE_ERROR),
    ],
)
def test_who_breaks_the_protocol_is_told_and_left(said: bytes, code: int) -> None:
    server = begun()
    (broken,) = server.receive(said)
    assert isinstance(broken, Broken) and broken.code == code
    assert server.over and server.receive(OPENED) == []
    told = server.to_send()
    assert told[3] == GOAWAY and struct.unpack(">I", told[13:17]) == (code,)


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", PREFACE + frame(PING, payload=b"1" * 8)])
def test_who_does_not_speak_it_is_left_at_once(said: bytes) -> None:
    server = Connection(client=False)
    (broken,) = server.receive(said)
    assert isinstance(broken, Broken) and broken.code == http2frames.PROTOCOL_ERROR


@pytest.mark.parametrize(
    "wrong",
    [
        [(b":status", b"200")],
        [*REQUEST[1:]],
        [*REQUEST, REQUEST[0]],
        [*REQUEST, (b":method", b"GET")],
        [*REQUEST[:3], (b"a", b"b"), (b":authority", b"x")],
        [*REQUEST, (b"Upper", b"x")],
        [*REQUEST, (b"connection", b"close")],
        [*REQUEST[:3], (b"te", b"gzip")],
        [*REQUEST, (b"a", b"b\r\nc: d")],
        [*REQUEST, (b"a b", b"c")],
        [*REQUEST, (b"", b"c")],
        [*REQUEST[:2], (b":path", b"")],
    ],
)
def test_a_request_that_is_none_is_refused_and_the_others_go_on(wrong: list[hpack.Field]) -> None:
    server = begun()
    assert server.receive(frame(HEADERS, END_HEADERS, 1, hpack.Encoder().encode(wrong))) == []
    assert server.to_send() == frame(RST_STREAM, 0, 1, struct.pack(">I", http2frames.PROTOCOL_ERROR))
    assert [type(event) for event in server.receive(frame(HEADERS, END_HEADERS | END_STREAM, 3, fields()))] == [Headers]


FLOODS: dict[str, Callable[[int], bytes]] = {
    "pings": lambda _: frame(PING, payload=b"1" * 8),
    "settings": lambda _: frame(SETTINGS),
    "priorities": lambda _: frame(PRIORITY, 0, 1, bytes(5)),
    "empty data": lambda number: frame(DATA, 0, 1) if number else OPENED,
    "windows": lambda _: frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1"),
    "unknown frames": lambda _: frame(99),
    "resets (CVE-2023-44487)": lambda number: (
        frame(HEADERS, END_HEADERS, 2 * number + 1, fields()) + frame(RST_STREAM, 0, 2 * number + 1, b"\0\0\0\10")
    ),
    "resets that a window brings about (CVE-2025-8671)": lambda number: (
        frame(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, fields())
        + frame(WINDOW_UPDATE, 0, 2 * number + 1, bytes(4))
    ),
    "resets that late data bring about (CVE-2025-8671)": lambda number: (
        frame(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, fields()) + frame(DATA, 0, 2 * number + 1, b"x")
    ),
    "resets that wrong trailers bring about (CVE-2025-8671)": lambda number: (
        frame(HEADERS, END_HEADERS, 2 * number + 1, fields())
        + frame(DATA, 0, 2 * number + 1, b"x")
        + frame(HEADERS, END_HEADERS, 2 * number + 1, fields())
    ),
    "continuations (CVE-2024-27316)": lambda number: (
        frame(CONTINUATION, 0, 1, b"") if number else frame(HEADERS, 0, 1, b"")
    ),
}


@pytest.mark.parametrize("flood", FLOODS)
def test_who_has_others_work_for_nothing_is_left(flood: str) -> None:
    """After a bounded number of frames."""
    server = begun()
    for number in range(1100):
        for event in server.receive(FLOODS[flood](number)):
            if isinstance(event, Broken):
                assert event.code == http2frames.ENHANCE_YOUR_CALM
                return
    pytest.fail("it went on")


def test_too_many_streams_are_refused_one_by_one() -> None:
    server = begun(Limits(streams=2))
    events = [event for number in (1, 3, 5) for event in server.receive(frame(HEADERS, END_HEADERS, number, fields()))]
    assert [event.stream for event in events] == [1, 3]
    assert server.to_send() == frame(RST_STREAM, 0, 5, struct.pack(">I", http2frames.REFUSED_STREAM))
    server.headers(1, ANSWER, ended=True)
    server.receive(frame(DATA, END_STREAM, 1))
    assert [event.stream for event in server.receive(frame(HEADERS, END_HEADERS, 7, fields()))] == [7]


def test_more_data_than_a_stream_has_room_for_ends_it() -> None:
    server = begun(Limits(window=65_535))
    server.receive(OPENED)
    whole = frame(DATA, 0, 1, bytes(16_384))
    assert server.receive(whole * 3) == [Data(1, bytes(3 * 16_384), False, 3 * 16_384)]
    assert server.receive(whole) == [Reset(1, http2frames.FLOW_CONTROL_ERROR)]


def test_more_data_than_there_is_room_for_breaks_the_connection() -> None:
    """It has room for four streams that nobody reads."""
    server = begun(Limits(window=65_535))
    for stream in (1, 3, 5, 7, 9):
        server.receive(frame(HEADERS, END_HEADERS, stream, fields()))
    for stream in (1, 3, 5, 7):
        full = frame(DATA, 0, stream, bytes(16_384)) * 3 + frame(DATA, 0, stream, bytes(16_383))
        assert server.receive(full) == [Data(stream, bytes(65_535), False, 65_535)]
    assert isinstance(server.receive(frame(DATA, 0, 9, b"x"))[-1], Broken)


def test_settings_change_the_windows_of_open_streams() -> None:
    server = begun()
    server.receive(OPENED)
    server.headers(1, ANSWER)
    assert server.data(1, bytes(70_000)) == 65_535
    server.receive(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 100_000)))
    assert server.room(1) == 0
    server.receive(frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 65_535 + 10)))
    assert server.room(1) == 10
    server.receive(frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 0)))
    assert server.room(1) == 0 and server.data(1, b"x") == 0


def test_a_stream_that_is_over_takes_all_and_sends_nothing() -> None:
    server = begun()
    server.receive(OPENED)
    assert server.receive(frame(RST_STREAM, 0, 1, b"\0\0\0\10")) == [Reset(1, http2frames.CANCEL)]
    assert server.data(1, b"abc", ended=True) == 3
    server.headers(1, ANSWER)
    server.reset(1)
    assert server.to_send() == b""


def test_what_comes_for_a_stream_that_was_reset_is_passed_over() -> None:
    """It was on its way; its bytes are given back, and its fields change the table."""
    server = begun()
    server.receive(OPENED)
    server.reset(1)
    server.to_send()
    assert server.receive(frame(DATA, 0, 1, b"abc") + frame(WINDOW_UPDATE, 0, 1, b"\0\0\0\1")) == []
    assert not server.over


def test_a_client_hears_the_farewell_and_opens_nothing_more() -> None:
    client = Connection(client=True)
    client.receive(frame(SETTINGS))
    first, second = client.open(REQUEST), client.open(REQUEST)
    events = client.receive(frame(GOAWAY, 0, 0, struct.pack(">II", first, 0) + b"bye"))
    assert events == [GoneAway(first, 0, "bye"), Reset(second, http2frames.REFUSED_STREAM)]
    assert not client.may_open()
    with pytest.raises(Invalid):
        client.open(REQUEST)


def test_pings_are_answered_and_heard() -> None:
    server = begun()
    server.receive(frame(PING, 0, 0, b"12345678"))
    assert server.to_send() == frame(PING, ACK, 0, b"12345678")
    assert server.receive(frame(PING, ACK, 0, b"12345678")) == [Pong(b"12345678")]


@given(
    st.lists(st.tuples(st.integers(0, 11), st.integers(0, 255), st.sampled_from([0, 1, 2, 3]), st.binary(max_size=20)))
)
def test_no_frames_lead_it_astray(said: list[tuple[int, int, int, bytes]]) -> None:
    """In pieces of any size."""
    for made in (Connection(client=False), Connection(client=True)):
        data = (b"" if made.to_send().startswith(PREFACE) else PREFACE) + frame(SETTINGS)
        data += b"".join(frame(*each) for each in said)
        for at in range(0, len(data), 7):
            made.receive(data[at : at + 7])


FRAMES = st.lists(
    st.one_of(
        st.tuples(st.just(DATA), st.just(0), st.sampled_from([1, 3]), st.binary(max_size=9)),
        st.tuples(
            st.just(DATA), st.sampled_from([END_STREAM, PADDED]), st.sampled_from([1, 3, 5]), st.binary(max_size=9)
        ),
        st.tuples(st.just(DATA), st.just(0), st.sampled_from([1, 3]), st.just(bytes(16_384))),
        st.tuples(st.just(PING), st.just(0), st.just(0), st.just(b"12345678")),
    ),
    max_size=12,
)


@given(said=FRAMES, size=st.integers(1, 70_000))
def test_frames_of_data_that_come_together_are_the_same_as_one_by_one(
    said: list[tuple[int, int, int, bytes]], size: int
) -> None:
    """The windows, what is refused and what is answered too."""
    data = b"".join(frame(*each) for each in said)

    def told(size: int, alone: bool) -> tuple[list[object], bytes, object]:
        server = begun(Limits(window=65_535))
        if alone:
            server._run_of_data = lambda _events: False
        server.receive(OPENED + frame(HEADERS, END_HEADERS, 3, fields()))
        found: list[object] = []
        for at in range(0, len(data), size):
            for event in server.receive(data[at : at + size]):
                last = found[-1] if found else None
                if isinstance(event, Data) and isinstance(last, Data) and last.stream == event.stream:
                    found.pop()
                    event = Data(event.stream, last.data + event.data, event.ended, last.taken + event.taken)
                found.append(event)
        return found, server.to_send(), (server._room, server._streams, server.over)

    assert told(size, False) == told(len(data) or 1, True)
