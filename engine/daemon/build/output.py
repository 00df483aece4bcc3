"""What a build says, as lines that docker's clients print.

Belongs to a request; every method may be called from the thread that builds alone. A quiet build keeps what it would
say, and says it only when it fails; of what it keeps the oldest goes once it is too much.
"""

import codecs
import collections
import time
from collections.abc import Callable

from engine.daemon.jsontext import Object

_RED, _PLAIN = "\x1b[91m", "\x1b[0m"
_MOST_KEPT = 1 << 20
_SHORT = 12
_TELL_SECONDS = 0.1


def short(identity: str) -> str:
    """The first twelve hex digits of an image's or a container's id."""
    return identity.removeprefix("sha256:")[:_SHORT]


class Output:
    """`say` takes a line, a dict, to the client.

    quiet: see above; shows_ids: lines with `aux` are sent
    """

    def __init__(self, say: Callable[[Object], None], quiet: bool, shows_ids: bool):
        self._say = say
        self._quiet = quiet
        self._shows_ids = shows_ids
        self._kept: collections.deque[Object] = collections.deque()
        self._size = 0
        self._decoders = {
            False: codecs.getincrementaldecoder("utf-8")("replace"),
            True: codecs.getincrementaldecoder("utf-8")("replace"),
        }

    def line(self, line: Object) -> None:
        """One line as it is: the progress of a pull."""
        if not self._quiet:
            self._say(line)
            return
        if "progressDetail" in line:
            return
        self._kept.append(line)
        self._size += len(line.get("stream", ""))
        while self._size > _MOST_KEPT:
            self._size -= len(self._kept.popleft().get("stream", ""))

    def text(self, text: str) -> None:
        """A text of the builder's own."""
        self.line({"stream": text})

    def downloading(self, status: str, identity: str = "") -> Callable[[int, int], None]:
        """What takes how far a download is, bytes so far and in all (-1: nobody knows), and tells some of it."""
        next_at = 0.0

        def tell(current: int, total: int) -> None:
            nonlocal next_at
            now = time.monotonic()
            if now < next_at and current != total:
                return
            next_at = now + _TELL_SECONDS
            detail = {"current": current, **({"total": total} if total >= 0 else {})}
            self.line({"status": status, "progressDetail": detail, **({"id": identity} if identity else {})})

        return tell

    def step(self, number: int, total: int, text: str) -> None:
        """Which step begins."""
        self.text(f"Step {number}/{total} : {text}")
        self.text("\n")

    def command(self, data: bytes, error: bool) -> None:
        """What a command has written, its errors in red; a character that two pieces share stays whole."""
        text = self._decoders[error].decode(data)
        if text:
            self.text(f"{_RED}{text}{_PLAIN}" if error else text)

    def command_ended(self) -> None:
        """The command's output is over: what it left of a character is shown as it is."""
        for error, decoder in self._decoders.items():
            rest = decoder.decode(b"", final=True)
            decoder.reset()
            if rest:
                self.text(f"{_RED}{rest}{_PLAIN}" if error else rest)

    def image(self, identity: str) -> None:
        """A stage is built."""
        if self._shows_ids and not self._quiet:
            self._say({"aux": {"ID": identity}})

    def failed(self) -> None:
        """Say now what a quiet build has kept."""
        if self._quiet:
            self._quiet = False
            while self._kept:
                self._say(self._kept.popleft())

    def result(self, identity: str) -> None:
        """All that a quiet build says, its image."""
        if self._quiet:
            self._say({"stream": f"{identity}\n"})
