"""Sends lines as events to Splunk's HTTP Event Collector, many in one request, compressed where that is asked for.

Run by the process beside a monitor that forwards the container's lines (`engine.monitor.forwarder`). Events wait for a
thread, which posts them when a batch is full or the time is over. A post that has failed is tried again with the next
one. What waits is bounded: the oldest batch is lost when the bound is reached, and the container waits before that for
as long as one post takes. The form is docs.splunk.com, "Format events for HTTP Event Collector".
"""

import _thread
import json
import os
import socket
import time
import zlib
from _queue import Empty, SimpleQueue  # `queue` has the same ones, and imports `threading`
from collections.abc import Mapping

from engine.asking import dial, exchange
from engine.errors import EngineError, SystemFailure
from engine.kernel import reasons
from engine.late import TYPE_CHECKING, late
from engine.logs.drivers import gojson, sender

if TYPE_CHECKING:  # loaded where TLS is asked for
    import ssl

    from engine.asking import secure
else:
    secure = late("engine.asking.secure")

_SOURCES = {1: b"stdout", 2: b"stderr"}
_SECONDS = 30.0  # for a whole request, as in dockerd
_ANSWER = 1024  # bytes of an answer that are shown
_GZIP = 31  # zlib.compressobj's `wbits`
_OK = 200
_PIECE = 1 << 20  # bytes of the JSON that is read whole, to see whether it is JSON
_ROOM = 0.05  # seconds between two looks for room
_MOST_BYTES = 32 << 20  # of events that wait in the queue, and as many that wait for another attempt


class Sender(sender.Sender):
    """A connection to an HTTP Event Collector."""

    def __init__(self, values: dict[str, str]) -> None:
        """Sees whether there is a collector, if the options say so. Raises SystemFailure in dockerd's words."""
        self._values = values
        self._every, self._batch = int(values["every"]) / 10**9, int(values["batch"])
        self._most, self._most_queued = int(values["most"]), int(values["queue"])
        self._form, self._tag = values["form"], values["tag"].encode("utf-8", "surrogateescape")
        self._attributes: dict[str, str] = json.loads(values["attributes"])
        told = [b'"host":' + gojson.text(os.uname().nodename.encode("utf-8", "surrogateescape"))]
        told += [b'"%b":%b' % (name.encode(), gojson.text(value.encode())) for name, value in _told(values).items()]
        self._told = b",".join(told)
        self._context = self._tls() if values["scheme"] == "https" else None
        self._exchange: exchange.Exchange | None = None
        self._queue: SimpleQueue[bytes | None] = SimpleQueue()
        self._queued = 0  # bytes in the queue, under `_counting`
        self._counting, self._working = _thread.allocate_lock(), _thread.allocate_lock()
        if values["verify"]:
            self._verify()

    def fileno(self) -> int:
        """No connection is kept for the process that sends: it makes its own."""
        return -1

    def begin(self) -> None:
        """Begin the thread that posts."""
        self._working.acquire()
        _thread.start_new_thread(self._work, ())

    def send(self, stream: int, line: bytes, partial: sender.Partial | None, time_ns: int) -> None:
        """Put a line into the queue as an event; waits while the queue is full."""
        event = self._event(stream, line)
        if event is None:
            return
        told = b'{"event":%b,"time":"%d.%06d",%b}' % (event, *divmod(time_ns // 1000, 10**6), self._told)
        while self._queue.qsize() >= self._most_queued or self._queued > _MOST_BYTES:
            time.sleep(_ROOM)
        with self._counting:
            self._queued += len(told)
        self._queue.put(told)

    def end(self) -> None:
        """Post what waits, once."""
        self._queue.put(None)
        self._working.acquire()

    def _event(self, stream: int, line: bytes) -> bytes | None:
        if self._form == "raw":
            if not line.strip():
                return None  # a collector does not take events of white space
            words = [self._tag] if self._tag else []
            words += [f"{name}={value}".encode("utf-8", "surrogateescape") for name, value in self._attributes.items()]
            return gojson.text(b" ".join([*words, line]))
        shown = line.strip() if self._form == "json" and _is_json(line) else gojson.text(line)
        parts = [b'"line":' + shown, b'"source":"%b"' % _SOURCES[stream]]
        if self._tag:
            parts.append(b'"tag":' + gojson.text(self._tag))
        if self._attributes:
            parts.append(b'"attrs":' + gojson.packed(self._attributes))
        return b"{" + b",".join(parts) + b"}"

    def _work(self) -> None:
        try:
            waiting: list[bytes] = []
            due = 0.0
            while True:
                try:
                    event = self._queue.get(True, max(due - time.monotonic(), 0.0) if waiting else None)
                except Empty:
                    waiting = self._posted(waiting)
                    due = time.monotonic() + self._every
                    continue
                if event is None:
                    break
                with self._counting:
                    self._queued -= len(event)
                if not waiting:
                    due = time.monotonic() + self._every
                waiting.append(event)
                # Only when another batch is full: a failed post is not tried again with each event.
                if len(waiting) % self._batch == 0:
                    waiting = self._posted(waiting)
            self._posted(waiting)
        finally:
            self._working.release()

    def _posted(self, waiting: list[bytes]) -> list[bytes]:
        """Post all of it; returns what could not be posted and waits on."""
        while waiting:
            if not self._post(waiting[: self._batch]):
                full = len(waiting) >= self._most or sum(map(len, waiting)) > _MOST_BYTES
                return waiting[self._batch :] if full else waiting
            waiting = waiting[self._batch :]
        return waiting

    def _post(self, events: list[bytes]) -> bool:
        body, fields = b"".join(events), {}
        if self._values["gzip"]:
            deflate = zlib.compressobj(int(self._values["level"]), zlib.DEFLATED, _GZIP)
            body, fields = deflate.compress(body) + deflate.flush(), {"Content-Encoding": "gzip"}
        if self._values["channel"]:
            fields["X-Splunk-Request-Channel"] = _uuid()
        for _ in range(2):  # a connection that has been idle may be closed by now
            kept = self._exchange is not None
            try:
                return self._ask("POST", fields, body).status == _OK
            except (OSError, EngineError):
                if not kept:
                    return False
        return False

    def _verify(self) -> None:
        shown = f'Options "{self._values["scheme"]}://{self._values["host"]}{self._values["path"]}"'
        try:
            answer = self._ask("OPTIONS", {}, b"")
        except exchange.Malformed as error:
            raise SystemFailure(f"{shown}: net/http: HTTP/1.x transport connection broken: {error}") from error
        except OSError as error:
            why = "i/o timeout" if isinstance(error, TimeoutError) else f"read: {reasons.of(error)}"
            raise SystemFailure(f"{shown}: {why}") from error
        except SystemFailure as error:
            raise SystemFailure(f"{shown}: {error}") from error
        finally:
            self._drop()
        if answer.status != _OK:
            body = answer.body.decode("utf-8", "replace")
            status = f"{answer.status} {answer.reason}"
            raise SystemFailure(f"splunk: failed to verify connection - {status} - {body}")

    def _ask(self, method: str, fields: Mapping[str, str], body: bytes) -> exchange.Answer:
        """One exchange, over the connection that is there or a new one. Raises OSError, EngineError."""
        if self._exchange is None:
            self._exchange = exchange.Exchange(self._connected(), self._values["host"])
        try:
            fields = {"Authorization": f"Splunk {self._values['token']}", **fields}
            answer = self._exchange.ask(method, self._values["path"], fields, body, _SECONDS, _ANSWER, cut=True)
        except BaseException:
            self._drop()
            raise
        if not self._exchange.usable:
            self._drop()
        return answer

    def _drop(self) -> None:
        if self._exchange is not None:
            self._exchange.close()
            self._exchange = None

    def _tls(self) -> "ssl.SSLContext":
        known = secure.Certificates(self._values["authority"], checked=not self._values["unchecked"])
        return secure.context(known)

    def _connected(self) -> socket.socket:
        plain = dial.dial("tcp", self._values["place"], _SECONDS)
        if self._context is None:
            return plain
        host = self._values["name"] or self._values["place"].rpartition(":")[0].strip("[]")
        return secure.secured(plain, self._context, host, _SECONDS)


def _told(values: dict[str, str]) -> dict[str, str]:
    """What the options add to each event."""
    found: dict[str, str] = json.loads(values["told"])
    return {name: found[name] for name in ("source", "sourcetype", "index") if name in found}


def _is_json(line: bytes) -> bool:
    if len(line) > _PIECE:
        return False
    try:
        # Numbers stay texts: Python takes long to make one of very many digits.
        json.loads(line.decode(), parse_constant=_refuse, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(word: str) -> None:
    raise ValueError(word)  # NaN and its like are no JSON to anybody else


def _uuid() -> str:
    """A random UUID (RFC 9562, version 4)."""
    made = bytearray(os.urandom(16))
    made[6], made[8] = made[6] & 0x0F | 0x40, made[8] & 0x3F | 0x80
    text = made.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
