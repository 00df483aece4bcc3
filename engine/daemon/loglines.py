"""The lines of the daemon's log: a message is one line, whatever a stranger has put into it.

Names, images' configs and registries' answers stand in messages. A line's end in one of them would begin a line that
nobody has logged, and an escape sequence would be obeyed by the terminal of whoever reads it.
"""

import logging
import re

from engine.settings import Settings

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class OneLine(logging.Formatter):
    """Control characters of a message are shown as Python writes them; a traceback keeps its lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """See logging.Formatter."""
        record.message = _CONTROL.sub(lambda found: ascii(found[0])[1:-1], record.message)
        return super().formatMessage(record)


def level(settings: Settings) -> int | str:
    """The least level to log."""
    return logging.DEBUG if settings.debug else settings.log_level.upper()


def configure(level: int | str) -> None:
    """Log to stderr from now on."""
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine(FORMAT))
    logging.basicConfig(level=level, handlers=[handler])
