"""HTTP/2 (RFC 9113) as a pure state machine, for either end of a connection: bytes in and events out, and the reverse.

It touches no descriptor and no clock. The owner passes what it reads to `receive`, handles the events, and writes what
`to_send` returns. Server push is refused, and priorities are read and ignored, as section 5.3.2 advises. A peer that
breaks the protocol, or that has this end work without any progress of its own, is told so and left (section 5.4.1); the
bounds are in `http2events.Limits`.
"""

from collections.abc import Iterable

from engine.dataclass import dataclass, field
from engine.errors import Invalid
from engine.protocols import hpack
from engine.protocols import http2frames as frames
from engine.protocols.hpack import Field
from engine.protocols.http2events import Broken, Data, Event, GoneAway, Headers, Limits, Pong, Reset, Room
from engine.protocols.http2fields import good_answer, good_request, good_trailers, is_interim

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What a client says first, before its settings."""
_TABLE_SIZE, _ENABLE_PUSH, _MOST_STREAMS, _WINDOW, _FRAME_SIZE, _LIST_SIZE = range(1, 7)
_STREAMS_FULL = 4
_USUAL_WINDOW, _USUAL_FRAME = 65_535, frames.USUAL_SIZE
_LARGEST_WINDOW, _LARGEST_FRAME = 2**31 - 1, 2**24 - 1
_LAST_STREAM = 2**31 - 1


@dataclass(slots=True)
class _Stream:
    """One stream that is not over. window: what may be sent; room: what may come; unread: received and not consumed"""

    window: int
    room: int
    here_open: bool = True
    there_open: bool = True
    headed: bool = False  # the first fields have come
    unread: int = 0


@dataclass(slots=True)
class _Block:
    """A list of fields whose frames are still coming."""

    stream: int
    ended: bool
    data: bytearray = field(default_factory=bytearray)
    frames: int = 1


class Connection:
    """One connection. Numbers of streams are the protocol's: those that a client opens are odd.

    client: this end opens the streams
    """

    def __init__(self, client: bool, limits: Limits | None = None) -> None:
        """Begin: `to_send` has what this end says first."""
        self.client = client
        self._limits = limits or Limits()
        self._in, self._out = bytearray(), bytearray()
        self._streams: dict[int, _Stream] = {}
        self._next = 1 if client else 2
        self._last_there = 0  # the highest number that the peer has opened
        self._encoder, self._decoder = hpack.Encoder(), hpack.Decoder(self._limits.fields)
        self._block: _Block | None = None
        self._greeted = client  # a server waits for the preface
        self._settled = False  # the peer's first settings have come
        self._window = _USUAL_WINDOW  # what may be sent on all streams together
        # What may come: one stream that nobody reads leaves room for others.
        self._room = _STREAMS_FULL * max(self._limits.window, _USUAL_WINDOW)
        self._owed = 0  # what was consumed and the peer was not told of yet
        self._their_window, self._their_frame, self._their_streams = _USUAL_WINDOW, _USUAL_FRAME, _LAST_STREAM
        self._vain = self._cut = 0
        self._gone: int | None = None  # the peer takes no stream beyond this one
        self.over = False
        if client:
            self._out += PREFACE
        self._say_settings()

    # What this end says.

    def to_send(self) -> bytes:
        """What waits to be written; the next call does not return it again."""
        data, self._out = bytes(self._out), bytearray()
        return data

    @property
    def gone(self) -> bool:
        """Whether the peer has said that it takes no new streams."""
        return self._gone is not None

    def may_open(self) -> bool:
        """Whether the peer takes one more stream now."""
        ours = sum(1 for number in self._streams if number % 2 == self._next % 2)
        return not self.over and self._gone is None and ours < self._their_streams and self._next <= _LAST_STREAM

    def open(self, fields: Iterable[Field], ended: bool = False) -> int:
        """Begin a request; the stream's number. Raises Invalid unless `may_open`."""
        if not self.may_open():
            raise Invalid("http2: the peer takes no more streams")
        number, self._next = self._next, self._next + 2
        self._streams[number] = _Stream(self._their_window, self._stream_room())
        self.headers(number, fields, ended)
        return number

    def headers(self, stream: int, fields: Iterable[Field], ended: bool = False) -> None:
        """Send an answer's or a request's fields, or trailers with `ended`. A stream that is over is left alone."""
        known = self._sendable(stream)
        if known is None:  # nothing is encoded then: a block changes the table, so the peer must get each
            return
        block = self._encoder.encode(fields)
        kind, end = frames.HEADERS, frames.END_STREAM if ended else 0
        for at in range(0, max(1, len(block)), self._their_frame):
            piece = block[at : at + self._their_frame]
            last = at + len(piece) >= len(block)
            self._frame(kind, (frames.END_HEADERS if last else 0) | end, stream, piece)
            kind, end = frames.CONTINUATION, 0
        if ended:
            self._end_here(stream, known)

    def takes(self, stream: int) -> bool:
        """Whether this end's side of the stream is still open."""
        return self._sendable(stream) is not None

    def room(self, stream: int) -> int:
        """How many bytes `data` would take now."""
        known = self._sendable(stream)
        return max(0, min(self._window, known.window)) if known else 0

    def data(self, stream: int, data: bytes, ended: bool = False) -> int:
        """Send as much of a body as there is room for; returns how much. The end goes with the last byte.

        Of a stream that is over, nothing is sent and all is taken: nobody wants it.
        """
        known = self._sendable(stream)
        if known is None:
            return len(data)
        taken = min(len(data), self.room(stream))
        whole = taken == len(data)
        for at in range(0, taken, self._their_frame):
            piece = data[at : min(taken, at + self._their_frame)]
            last = ended and whole and at + len(piece) == taken
            self._frame(frames.DATA, frames.END_STREAM if last else 0, stream, piece)
        self._window -= taken
        known.window -= taken
        if taken:  # the peer's next frames may be its answers to these bytes
            self._vain = 0
        if ended and whole:
            if not taken:
                self._frame(frames.DATA, frames.END_STREAM, stream, b"")
            self._end_here(stream, known)
        return taken

    def consumed(self, stream: int, taken: int) -> None:
        """The owner has no more use for so many bytes of `Data`: the peer may send as many again."""
        self._owed += taken
        if self._owed >= self._limits.window // 2:
            self._room += self._owed
            self._frame(frames.WINDOW_UPDATE, 0, 0, frames.NUMBER.pack(self._owed))
            self._owed = 0
        known = self._streams.get(stream)
        if known is not None and known.there_open:
            known.unread += taken
            if known.unread >= self._limits.window // 2:
                known.room += known.unread
                self._frame(frames.WINDOW_UPDATE, 0, stream, frames.NUMBER.pack(known.unread))
                known.unread = 0

    def reset(self, stream: int, code: int = frames.CANCEL) -> None:
        """End a stream at once, in both directions; one that is over is left alone."""
        if self._streams.pop(stream, None) is not None and not self.over:
            self._frame(frames.RST_STREAM, 0, stream, frames.NUMBER.pack(code))

    def ping(self, data: bytes) -> None:
        """Ask for a sign of life. data: 8 bytes, which come back in `Pong`"""
        self._frame(frames.PING, 0, 0, data)

    def close(self, code: int = frames.NO_ERROR, words: str = "") -> None:
        """Say that this end takes nothing more; what the peer sends from now on is passed over."""
        if not self.over:
            self._frame(frames.GOAWAY, 0, 0, frames.GOAWAY_HEAD.pack(self._last_there, code) + words.encode())
            self.over = True
            self._streams.clear()

    def streams(self) -> int:
        """How many streams are not over."""
        return len(self._streams)

    def _say_settings(self) -> None:
        settings = {_MOST_STREAMS: self._limits.streams, _WINDOW: self._stream_room(), _LIST_SIZE: self._limits.fields}
        if self.client:
            settings[_ENABLE_PUSH] = 0
        self._frame(frames.SETTINGS, 0, 0, b"".join(frames.SETTING.pack(*each) for each in settings.items()))
        if self._room > _USUAL_WINDOW:
            self._frame(frames.WINDOW_UPDATE, 0, 0, frames.NUMBER.pack(self._room - _USUAL_WINDOW))

    def _stream_room(self) -> int:
        return max(self._limits.window, _USUAL_WINDOW)

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        self._out += frames.HEAD.pack(len(payload) >> 8, len(payload) & 0xFF, kind, flags, stream) + payload

    def _sendable(self, stream: int) -> _Stream | None:
        known = None if self.over else self._streams.get(stream)
        return known if known is not None and known.here_open else None

    def _end_here(self, number: int, known: _Stream) -> None:
        known.here_open = False
        self._forget_ended(number, known)

    def _forget_ended(self, number: int, known: _Stream) -> None:
        if not (known.here_open or known.there_open):
            self._streams.pop(number, None)
            self._cut = max(0, self._cut - 1)

    # What the peer says.

    def receive(self, data: bytes | memoryview) -> list[Event]:
        """Take what was read; the events of it, in order. After `Broken` nothing more is taken."""
        events: list[Event] = []
        if self.over:
            return events
        self._in += data
        try:
            while not self.over and (self._run_of_data(events) or self._step(events)):
                if self._vain > self._limits.vain or self._cut > self._limits.streams:
                    raise frames.Fault(frames.ENHANCE_YOUR_CALM, "too many frames that bring nothing forward")
        except frames.Fault as fault:
            events.append(Broken(fault.code, str(fault)))
            self.close(fault.code, str(fault))
        except hpack.TooLarge as error:
            events.append(Broken(frames.ENHANCE_YOUR_CALM, str(error)))
            self.close(frames.ENHANCE_YOUR_CALM, str(error))
        except Invalid as error:
            events.append(Broken(frames.COMPRESSION_ERROR, str(error)))
            self.close(frames.COMPRESSION_ERROR, str(error))
        return events

    def _run_of_data(self, events: list[Event]) -> bool:
        """Handle the plain frames of data with which begins what has come, if there are any, as one event."""
        waiting = self._in
        if not self._settled or self._block is not None or len(waiting) < frames.HEAD.size or waiting[3] or waiting[4]:
            return False
        stream = int.from_bytes(waiting[5 : frames.HEAD.size])
        known = self._streams.get(stream)
        if known is None or not (known.headed and known.there_open):
            return False
        data, length = frames.run_of_data(waiting, min(self._room, known.room))
        if not data:
            return False
        del waiting[:length]
        self._room -= len(data)
        known.room -= len(data)
        self._vain = 0
        events.append(Data(stream, data, False, len(data)))
        return True

    def _step(self, events: list[Event]) -> bool:
        """Handle one frame, if a whole one is there."""
        if not self._greeted:
            begun = self._in[: len(PREFACE)]
            if not PREFACE.startswith(begun):
                raise frames.Fault(frames.PROTOCOL_ERROR, "not the preface of HTTP/2")
            if len(begun) < len(PREFACE):
                return False
            del self._in[: len(PREFACE)]
            self._greeted = True
        if len(self._in) < frames.HEAD.size:
            return False
        high, low, kind, flags, stream = frames.HEAD.unpack_from(self._in)
        length = high << 8 | low
        if length > _USUAL_FRAME:
            raise frames.Fault(frames.FRAME_SIZE_ERROR, f"a frame of {length} bytes")
        if len(self._in) < frames.HEAD.size + length:
            return False
        payload = bytes(self._in[frames.HEAD.size : frames.HEAD.size + length])
        del self._in[: frames.HEAD.size + length]
        stream &= _LAST_STREAM
        if not self._settled and (kind != frames.SETTINGS or flags & frames.ACK):
            raise frames.Fault(frames.PROTOCOL_ERROR, "the first frame is not one of settings")
        if self._block is not None and (kind != frames.CONTINUATION or stream != self._block.stream):
            raise frames.Fault(frames.PROTOCOL_ERROR, "another frame within a list of fields")
        self._vain += 1
        handle = _HANDLERS.get(kind)
        if handle is not None:  # section 5.5: an unknown type is passed over
            handle(self, flags, stream, payload, events)
        return True

    def _on_data(self, flags: int, stream: int, payload: bytes, events: list[Event]) -> None:
        if not stream or self._is_idle(stream):
            raise frames.Fault(frames.PROTOCOL_ERROR, "data on no stream")
        length, data = len(payload), frames.unpadded(flags, payload)
        if length > self._room:
            raise frames.Fault(frames.FLOW_CONTROL_ERROR, "more data than there is room for")
        self._room -= length
        known = self._streams.get(stream)
        if known is None or not (known.headed and known.there_open):
            self._reject(stream, frames.STREAM_CLOSED, events)
            self.consumed(0, length)
            return
        if length > known.room:
            self._reject(stream, frames.FLOW_CONTROL_ERROR, events)
            self.consumed(0, length)
            return
        known.room -= length
        ended = bool(flags & frames.END_STREAM)
        if data or ended:
            self._vain = 0
        events.append(Data(stream, data, ended, length))
        if ended:
            self._end_there(stream, known)

    def _on_headers(self, flags: int, stream: int, payload: bytes, events: list[Event]) -> None:
        if not stream:
            raise frames.Fault(frames.PROTOCOL_ERROR, "fields on no stream")
        fragment = frames.unpadded(flags, payload)
        if flags & frames.HAS_PRIORITY:
            if len(fragment) < 5:
                raise frames.Fault(frames.FRAME_SIZE_ERROR, "a priority is cut")
            fragment = fragment[5:]
        self._block = _Block(stream, bool(flags & frames.END_STREAM), bytearray(fragment))
        self._continue(flags, events)

    def _on_continuation(self, flags: int, _stream: int, payload: bytes, events: list[Event]) -> None:
        if self._block is None:
            raise frames.Fault(frames.PROTOCOL_ERROR, "a continuation of nothing")
        self._block.data += payload
        self._block.frames += 1
        if self._block.frames > self._limits.frames or len(self._block.data) > self._limits.fields:
            raise frames.Fault(frames.ENHANCE_YOUR_CALM, "a list of fields has no end")
        self._continue(flags, events)

    def _continue(self, flags: int, events: list[Event]) -> None:
        block = self._block
        if block is None or not flags & frames.END_HEADERS:
            return
        self._block = None
        # Also where nobody wants them: the table changes with each block.
        fields = self._decoder.decode(bytes(block.data))
        known = self._streams.get(block.stream)
        if known is None and not self._is_ours(block.stream) and block.stream > self._last_there:
            known = self._admitted(block.stream)
        elif known is None and self._is_idle(block.stream):
            raise frames.Fault(frames.PROTOCOL_ERROR, "an answer to no request")
        if known is None:  # it is over, or was refused
            return
        if not known.there_open:
            self._reject(block.stream, frames.STREAM_CLOSED, events)
            return
        if known.headed:
            good = good_trailers(fields, block.ended)
        else:
            good = good_answer(fields, block.ended) if self.client else good_request(fields)
        if not good:
            self._reject(block.stream, frames.PROTOCOL_ERROR, events)
            return
        known.headed = known.headed or not is_interim(fields)
        if block.ended:
            self._vain = 0
        events.append(Headers(block.stream, fields, block.ended))
        if block.ended:
            self._end_there(block.stream, known)

    def _admitted(self, number: int) -> _Stream | None:
        """A stream that the peer opens (section 5.1.1); None where there are too many."""
        if self.client or number % 2 == 0:
            raise frames.Fault(frames.PROTOCOL_ERROR, "a stream with a number of this end's")
        self._last_there = number
        if len(self._streams) >= self._limits.streams:
            self._frame(frames.RST_STREAM, 0, number, frames.NUMBER.pack(frames.REFUSED_STREAM))
            return None
        known = self._streams[number] = _Stream(self._their_window, self._stream_room())
        return known

    def _on_reset(self, _flags: int, stream: int, payload: bytes, events: list[Event]) -> None:
        if len(payload) != frames.NUMBER.size:
            raise frames.Fault(frames.FRAME_SIZE_ERROR, "a reset of another size")
        if not stream or self._is_idle(stream):
            raise frames.Fault(frames.PROTOCOL_ERROR, "a reset of no stream")
        if self._streams.pop(stream, None) is not None:
            self._cut += not self._is_ours(stream)
            events.append(Reset(stream, *frames.NUMBER.unpack(payload)))

    def _on_settings(self, flags: int, stream: int, payload: bytes, events: list[Event]) -> None:
        if stream:
            raise frames.Fault(frames.PROTOCOL_ERROR, "settings of one stream")
        if len(payload) % frames.SETTING.size or (flags & frames.ACK and payload):
            raise frames.Fault(frames.FRAME_SIZE_ERROR, "settings of another size")
        self._settled = True
        if flags & frames.ACK:
            return
        for name, value in frames.SETTING.iter_unpack(payload):
            self._set(name, value)
        self._frame(frames.SETTINGS, frames.ACK, 0, b"")
        events.append(Room(0))

    def _set(self, name: int, value: int) -> None:
        if name == _TABLE_SIZE:
            self._encoder.allow(value)
        elif name == _ENABLE_PUSH:
            if value > 1 or (value and self.client):
                raise frames.Fault(frames.PROTOCOL_ERROR, "a setting of push that may not be")
        elif name == _MOST_STREAMS:
            self._their_streams = value
        elif name == _WINDOW:
            if value > _LARGEST_WINDOW:
                raise frames.Fault(frames.FLOW_CONTROL_ERROR, "a window that is too large")
            for known in self._streams.values():
                known.window += value - self._their_window
                if known.window > _LARGEST_WINDOW:
                    raise frames.Fault(frames.FLOW_CONTROL_ERROR, "a window that is too large")
            self._their_window = value
        elif name == _FRAME_SIZE:
            if not _USUAL_FRAME <= value <= _LARGEST_FRAME:
                raise frames.Fault(frames.PROTOCOL_ERROR, "a size of frames that may not be")
            self._their_frame = value

    def _on_push(self, _flags: int, _stream: int, _payload: bytes, _events: list[Event]) -> None:
        raise frames.Fault(frames.PROTOCOL_ERROR, "a push, which was refused")

    def _on_ping(self, flags: int, stream: int, payload: bytes, events: list[Event]) -> None:
        if stream:
            raise frames.Fault(frames.PROTOCOL_ERROR, "a ping of one stream")
        if len(payload) != 8:
            raise frames.Fault(frames.FRAME_SIZE_ERROR, "a ping of another size")
        if flags & frames.ACK:
            events.append(Pong(payload))
        else:
            self._frame(frames.PING, frames.ACK, 0, payload)

    def _on_goaway(self, _flags: int, stream: int, payload: bytes, events: list[Event]) -> None:
        if stream or len(payload) < frames.GOAWAY_HEAD.size:
            raise frames.Fault(
                frames.PROTOCOL_ERROR if stream else frames.FRAME_SIZE_ERROR, "a farewell that may not be"
            )
        last, code = frames.GOAWAY_HEAD.unpack_from(payload)
        self._gone = last & _LAST_STREAM
        events.append(GoneAway(self._gone, code, payload[frames.GOAWAY_HEAD.size :].decode("utf-8", "replace")))
        for number in [number for number in self._streams if self._is_ours(number) and number > self._gone]:
            del self._streams[number]
            events.append(Reset(number, frames.REFUSED_STREAM))

    def _on_window(self, _flags: int, stream: int, payload: bytes, events: list[Event]) -> None:
        if len(payload) != frames.NUMBER.size:
            raise frames.Fault(frames.FRAME_SIZE_ERROR, "a window's change of another size")
        if stream and self._is_idle(stream):
            raise frames.Fault(frames.PROTOCOL_ERROR, "a window of no stream")
        more = frames.NUMBER.unpack(payload)[0] & _LARGEST_WINDOW
        if not stream:
            self._window += more
            if not more or self._window > _LARGEST_WINDOW:
                raise frames.Fault(
                    frames.FLOW_CONTROL_ERROR if more else frames.PROTOCOL_ERROR, "a window's change that may not be"
                )
            events.append(Room(0))
        elif (known := self._streams.get(stream)) is not None:
            known.window += more
            if not more or known.window > _LARGEST_WINDOW:
                self._reject(stream, frames.FLOW_CONTROL_ERROR if more else frames.PROTOCOL_ERROR, events)
            else:
                events.append(Room(stream))

    def _on_priority(self, _flags: int, _stream: int, payload: bytes, _events: list[Event]) -> None:
        if len(payload) != 5:
            raise frames.Fault(frames.FRAME_SIZE_ERROR, "a priority of another size")

    def _is_ours(self, stream: int) -> bool:
        return stream % 2 == self._next % 2

    def _is_idle(self, stream: int) -> bool:
        """Whether nobody has opened the stream yet."""
        return stream >= self._next if self._is_ours(stream) else stream > self._last_there

    def _reject(self, stream: int, code: int, events: list[Event]) -> None:
        """End a stream because of what the peer did on it (section 5.4.2)."""
        self._frame(frames.RST_STREAM, 0, stream, frames.NUMBER.pack(code))
        known = self._streams.pop(stream, None)
        self._cut += known is not None and not self._is_ours(stream)
        if known is not None and (known.headed or self._is_ours(stream)):
            events.append(Reset(stream, code))

    def _end_there(self, number: int, known: _Stream) -> None:
        known.there_open = False
        self._forget_ended(number, known)


_HANDLERS = {
    frames.DATA: Connection._on_data,
    frames.HEADERS: Connection._on_headers,
    frames.PRIORITY: Connection._on_priority,
    frames.RST_STREAM: Connection._on_reset,
    frames.SETTINGS: Connection._on_settings,
    frames.PUSH_PROMISE: Connection._on_push,
    frames.PING: Connection._on_ping,
    frames.GOAWAY: Connection._on_goaway,
    frames.WINDOW_UPDATE: Connection._on_window,
    frames.CONTINUATION: Connection._on_continuation,
}
