"""Formats the lines of the daemon's log: each message is one line that names the request and the container it is about.

    2026-11-22 15:04:02,123 WARNING engine.daemon.x: [request 17 POST /commit] container 0123456789ab web: it dies

The request is the one that the logging thread serves (`busy`). Code that logs something about a container begins the
message with `container %s` and the whole id. The line shows 12 digits of it and the name that the container has by
then. A message that names no container is about the one that the thread is working on, if any.

Names, images' configs and registries' answers stand in messages too. A newline in one of them would begin a line that
the daemon has not logged, and an escape sequence would be obeyed by the terminal of the reader.
"""

import json
import logging
from collections.abc import Callable

from engine.annotating import Any
from engine.daemon import busy
from engine.late import TYPE_CHECKING, late
from engine.redact import redacted
from engine.regex import regex
from engine.settings.every import Settings

if TYPE_CHECKING:  # loaded for lines of JSON
    from engine.daemon import clock
else:
    clock = late("engine.daemon.clock")

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_CONTROL = regex("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_CONTAINER = "container "
_ABOUT = regex(_CONTAINER + "([0-9a-f]{64})(?![0-9a-f])")
_DIGITS = 12
_LEVELS = {"CRITICAL": "fatal"}
_PLAIN = regex("[A-Za-z0-9._/@^+-]+")

Named = Callable[[str], tuple[str, str] | None]
"""A function: id, name or prefix of a container → (id, name), or None for an unknown container. It must not block."""


def _nobody(_: str) -> None:
    return None


_named: Named = _nobody


class OneLine(logging.Formatter):
    """A log formatter that shows the control characters of a message as Python writes them; a traceback keeps its
    lines.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line of a record (overrides logging.Formatter), whose message is made one line first."""
        text = self._message(record.message)
        record.message = text if text.isprintable() else _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)
        return super().formatMessage(record)

    def _message(self, text: str) -> str:
        task = busy.now()
        about = _ABOUT.match(text) if text.startswith(_CONTAINER) else None
        if about is not None:
            text = f"container {shown(about[1]) or about[1][:_DIGITS]}{text[about.end() :]}"
        elif task is not None and (found := shown(task.container)):
            text = f"container {found}: {text}"
        text = redacted(text)
        return f"[{task}] {text}" if task is not None and task.number else text

    def formatException(self, ei: Any) -> str:
        """A traceback (overrides logging.Formatter)."""
        return redacted(super().formatException(ei))


def shown(container: str) -> str:
    """The first 12 digits of a container's id, and its name; empty for an unknown container.

    container: its id, name or prefix
    """
    found = _named(container) if container else None
    return f"{found[0][:_DIGITS]} {found[1]}" if found is not None else ""


def name_by(named: Named) -> None:
    """Look up the containers' names with this function from now on."""
    global _named
    _named = named


class Json(OneLine):
    """The same as one JSON object a line, with dockerd's keys `level`, `msg` and `time`, and with `logger`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record (overrides logging.Formatter); a traceback is the key `error`."""
        return json.dumps(self._fields(record), separators=(",", ":"), sort_keys=True)

    def _fields(self, record: logging.LogRecord) -> dict[str, str]:
        fields = {
            "time": clock.rfc3339(round(record.created * 10**6) * 1000),
            "level": _LEVELS.get(record.levelname, record.levelname.lower()),
            "msg": self._message(record.getMessage()),
            "logger": record.name,
        }
        return {**fields, "error": self.formatException(record.exc_info)} if record.exc_info else fields


class KeyValue(Json):
    """The same fields as `key=value` each, as dockerd's own log has them; what is no plain word is quoted."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record (overrides logging.Formatter)."""
        return " ".join(f"{key}={_quoted(value)}" for key, value in self._fields(record).items())


def _quoted(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted if quoted.isprintable() else _CONTROL.sub(lambda found: ascii(found[0])[1:-1], quoted)


def level(settings: Settings) -> int | str:
    """The least level to log by these settings."""
    return logging.DEBUG if settings.debug else settings.log_level.upper()


def configure(level: int | str, form: str = "text") -> None:
    """Log to stderr from now on, at this level and in a form of the settings."""
    handler = logging.StreamHandler()
    handler.setFormatter({"json": Json, "logfmt": KeyValue}[form]() if form != "text" else OneLine(FORMAT))
    logging.basicConfig(level=level, handlers=[handler])
