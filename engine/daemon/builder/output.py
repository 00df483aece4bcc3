"""What a build tells its client: the JSON lines that docker's clients print.

Belongs to one request; only the thread that builds may call its methods. A quiet build keeps its lines, and sends them
only when it fails. When it keeps too many, the oldest ones are dropped.
"""

import codecs
import collections
import time
from collections.abc import Callable

from engine.daemon.builder.graph.telling import Telling
from engine.daemon.jsontext import Object
from engine.redact import redacted

_RED, _PLAIN = "\x1b[91m", "\x1b[0m"
_MOST_KEPT = 1 << 20
_SHORT = 12
_TELL_SECONDS = 0.1


def short(identity: str) -> str:
    """The first twelve hex digits of an image's or a container's id."""
    return identity.removeprefix("sha256:")[:_SHORT]


class Lines(Telling):
    """Writes the lines of one build; `say` sends a line, a dict, to the client. It is a `Telling`.

    quiet: lines are kept, and sent only when the build fails; shows_ids: lines with `aux` are sent
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
        """Send one line as it is: the progress of a pull, for example."""
        if not self._quiet:
            self._say(line)
            return
        if "progressDetail" in line:
            return
        self._kept.append(line)
        self._size += len(line.get("stream", ""))
        while self._size > _MOST_KEPT:
            self._size -= len(self._kept.popleft().get("stream", ""))

    def note(self, text: str) -> None:
        """Send a text of the builder itself."""
        self.line({"stream": text})

    def warnings(self, texts: tuple[str, ...]) -> None:
        """Report what should be corrected in the Dockerfile, in the form in which a command's errors are shown."""
        last = ("Empty continuation lines will become errors in a future release.",) if texts else ()
        for text in (*texts, *last):
            self.command(f"[WARNING]: {text}\n".encode(), True)

    def downloading(self, status: str, identity: str = "") -> Callable[[int, int], None]:
        """A function that takes a download's progress (bytes so far, in all or -1) and reports some of its calls."""
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

    def downloaded(self) -> None:
        """End the line of a download."""
        self.note("\n")

    def step(self, number: int, total: int, text: str) -> None:
        """Report the step that begins, with its place among all steps of the build and as the Dockerfile has it."""
        self.note(f"Step {number}/{total} : {redacted(text)}")
        self.note("\n")

    def cached(self) -> None:
        """Say that the step need not be made."""
        self.note(" ---> Using cache\n")

    def stands_on(self, identity: str) -> None:
        """Report the image of a step."""
        self.note(f" ---> {short(identity)}\n")

    def running(self, container: str) -> None:
        """Report the container of a step."""
        self.note(f" ---> Running in {short(container)}\n")

    def removed(self, container: str) -> None:
        """Report that the container of a step is gone."""
        self.note(f" ---> Removed intermediate container {short(container)}\n")

    def command(self, data: bytes, error: bool) -> None:
        """Send what a command has written, its errors in red.

        A UTF-8 character that is split between two pieces stays whole.
        """
        text = self._decoders[error].decode(data)
        if text:
            self.note(f"{_RED}{text}{_PLAIN}" if error else text)

    def command_ended(self) -> None:
        """End a command's output: the incomplete rest of a character is shown as a replacement character."""
        for error, decoder in self._decoders.items():
            rest = decoder.decode(b"", final=True)
            decoder.reset()
            if rest:
                self.note(f"{_RED}{rest}{_PLAIN}" if error else rest)

    def image(self, identity: str) -> None:
        """Report the image of a finished stage as an `aux` line."""
        if self._shows_ids and not self._quiet:
            self._say({"aux": {"ID": identity}})

    def failed(self) -> None:
        """Send the lines that a quiet build has kept."""
        if self._quiet:
            self._quiet = False
            while self._kept:
                self._say(self._kept.popleft())

    def result(self, identity: str) -> None:
        """Report the image's id, which is all that a quiet build sends."""
        if self._quiet:
            self._say({"stream": f"{identity}\n"})
