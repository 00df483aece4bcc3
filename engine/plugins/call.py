"""Calls a method of a plugin: one POST with a JSON body, whose answer is one JSON object.

Used by the daemon's threads, and by the process that forwards a container's lines. docs.docker.com/engine/extend/
plugin_api says how. A plugin that cannot be reached is tried again for half a minute, as dockerd does, since it may be
about to start. What it answers is hostile: bounded in time and size, and every value is looked at by its reader.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from engine.annotating import Any
from engine.asking import dial, exchange
from engine.errors import EngineError, SystemFailure
from engine.kernel import reasons
from engine.late import TYPE_CHECKING, late
from engine.plugins.discovery import Address

if TYPE_CHECKING:  # loaded for a plugin that speaks TLS
    from engine.asking import secure
else:
    secure = late("engine.asking.secure")

_SECONDS = 60.0
_PATIENCE = 30.0  # for a plugin that cannot be reached
_LONG = 4 << 20  # bytes of an answer
_SHOWN = 1000  # characters of a refusal
_FIELDS = {"Accept": "application/vnd.docker.plugins.v1.2+json", "Content-Type": "application/json"}
_HOST = "plugin.moby.localhost"
_SPACE = " \t\r\n"
_OK, _NOT_FOUND = 200, 404

Object = dict[str, Any]
"""An object of JSON, of which nothing is known yet."""


class Unreachable(SystemFailure):
    """The plugin cannot be reached, or does not answer as a plugin does."""


class Missing(SystemFailure):
    """The plugin does not know the method."""


def call(
    address: Address,
    method: str,
    arguments: Object | None = None,
    seconds: float = _SECONDS,
    patience: float = _PATIENCE,
) -> Object:
    """The answer of the method, whose field `Err` is empty. Raises Unreachable, Missing, SystemFailure with its `Err`.

    seconds: for each attempt; patience: for all of them
    """
    body = b"" if arguments is None else json.dumps(arguments).encode() + b"\n"
    status, answer = _tried(lambda: _asked(address, method, body, seconds), patience)
    try:
        # As for dockerd the first value counts, whatever follows it; null is an object without anything.
        value = json.JSONDecoder().raw_decode(answer.decode().lstrip(_SPACE))[0]
        value = {} if value is None else value
    except (ValueError, RecursionError):
        value = None
    error = value.get("Err") if isinstance(value, dict) else None
    if status != _OK:
        told = error if isinstance(error, str) and error else answer.decode("utf-8", "replace").strip()
        raise (Missing if status == _NOT_FOUND else SystemFailure)(f"{method}: {told[:_SHOWN]}")
    if not isinstance(value, dict):
        raise Unreachable(f"{method}: the plugin's answer is no object of JSON")
    if isinstance(error, str) and error:
        raise SystemFailure(error[:_SHOWN])
    return value


class Streamed:
    """An answer that is no JSON, as it comes."""

    def __init__(self, link: exchange.Exchange, head: exchange.Head) -> None:
        self._link, self._head = link, head

    def fileno(self) -> int:
        """The descriptor of the connection."""
        return self._link.fileno()

    def pieces(self, ready: Callable[[], bool]) -> Iterator[bytes]:
        """What comes. ready: waits until there is more; False ends the reading. Raises OSError, exchange.Malformed."""
        return self._link.pieces(self._head, None, ready)


@contextmanager
def streamed(address: Address, method: str, arguments: Object, seconds: float = _SECONDS) -> Iterator[Streamed]:
    """The answer of the method, once it has begun. seconds: until then

    Raises Unreachable, Missing, SystemFailure.
    """
    link = _connected(address, seconds)
    try:
        try:
            head = link.begin("POST", f"/{method}", _FIELDS, json.dumps(arguments).encode() + b"\n", seconds)
        except (OSError, exchange.Malformed) as error:
            raise Unreachable(_words(method, error)) from error
        if head.status != _OK:
            raise (Missing if head.status == _NOT_FOUND else SystemFailure)(f"{method}: {head.status} {head.reason}")
        yield Streamed(link, head)
    finally:
        link.close()


def _tried(ask: Callable[[], tuple[int, bytes]], patience: float) -> tuple[int, bytes]:
    begun, wait = time.monotonic(), 1.0
    while True:
        try:
            return ask()
        except Unreachable:
            if time.monotonic() - begun + wait >= patience:
                raise
        time.sleep(wait)
        wait *= 2


def _asked(address: Address, method: str, body: bytes, seconds: float) -> tuple[int, bytes]:
    try:
        link = _connected(address, seconds)
    except EngineError as error:
        raise Unreachable(f'Post "http://{_HOST}/{method}": {error}') from error
    try:
        answer = link.ask("POST", f"/{method}", _FIELDS, body, seconds, _LONG)
    except (OSError, exchange.Malformed) as error:
        raise Unreachable(_words(method, error)) from error
    finally:
        link.close()
    return answer.status, answer.body


def _connected(address: Address, seconds: float) -> exchange.Exchange:
    plain = dial.dial(address.kind, address.place, min(seconds, _PATIENCE))
    if not address.secure:
        return exchange.Exchange(plain, _HOST if address.kind == "unix" else address.place)
    known = secure.Certificates(address.authority, address.certificate, address.key, address.checked)
    host = address.place.rpartition(":")[0].strip("[]")
    return exchange.Exchange(secure.secured(plain, secure.context(known), host, seconds), address.place)


def _words(method: str, error: OSError | exchange.Malformed) -> str:
    if isinstance(error, TimeoutError):
        why = "context deadline exceeded"
    else:
        why = reasons.of(error) if isinstance(error, OSError) else str(error)
    return f'Post "http://{_HOST}/{method}": {why}'
