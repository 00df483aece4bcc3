"""What a build of BuildKit's API does, step by step, and those who watch it.

A step is a vertex: it begins, writes, counts bytes, and ends. Whoever watches is told of all from the build's begin, so
that a client that comes late sees the same. What the commands of one step write is kept up to a limit, as in BuildKit.
The lock is held for one event, and never while a client is waited for.
"""

import hashlib
import threading
import time
from collections.abc import Iterator

from engine.daemon.buildkit.messages.control import StatusResponse, VertexStatus, VertexWarning
from engine.daemon.buildkit.messages.control import Vertex as VertexMessage
from engine.daemon.buildkit.messages.known import Timestamp, moment
from engine.errors import Invalid

_MOST_LOGGED = 2 << 20  # bytes of one vertex
_MOST_KEPT = 32 << 20  # bytes of all that one build's commands have written, with what each piece costs
_COST = 500
_MOST_STEPS = 30_000
_LONGEST_NAME = 16 * 1024
_CLIPPED = b"\n[output clipped, log limit 2MiB reached]\n"
STDOUT, STDERR = 1, 2
_NOTHING: StatusResponse = {}


def now() -> Timestamp:
    """The time as a message has it."""
    return moment(time.time_ns())


class Progress:
    """The events of one build, in order. ref: the client's name of the build; followed: somebody has watched it"""

    def __init__(self, ref: str) -> None:
        self._ref = ref
        self._changed = threading.Condition()
        self._events: list[StatusResponse] = []  # guarded by `_changed`; what a later one replaces is empty
        self._over = False
        self._count = self._kept = 0
        self.followed = False

    def vertex(self, name: str, inputs: tuple[str, ...] = (), digest: str = "") -> "Vertex":
        """A step that is going to be made. inputs: digests of those that it needs; digest: its own, if it has one

        Raises Invalid where a build has too many: frontends and graphs may name any number.
        """
        name = name[:_LONGEST_NAME]
        with self._changed:
            self._count += 1
            if self._count > _MOST_STEPS:
                raise Invalid(f"a build has at most {_MOST_STEPS} steps")
            mark = f"{self._ref} {self._count} {name}"
        if not digest:
            digest = f"sha256:{hashlib.sha256(mark.encode('utf-8', 'surrogateescape')).hexdigest()}"
        vertex = Vertex(self, digest, name, inputs)
        vertex.tell()
        return vertex

    def add(self, event: StatusResponse, replaced: int = -1) -> int:
        """One more event; its place. replaced: place of an older one, of which whoever comes late need not be told"""
        with self._changed:
            if replaced >= 0:
                self._events[replaced] = _NOTHING
            self._events.append(event)
            self._changed.notify_all()
            return len(self._events) - 1

    def warn(self, name: str, warning: VertexWarning) -> None:
        """A warning that belongs to the last step of that name, if there is one."""
        with self._changed:
            told = (vertex for event in reversed(self._events) for vertex in event.get("vertexes") or ())
            digest = next((vertex["digest"] for vertex in told if vertex["name"] == name), "")
        self.add({"warnings": [{**warning, "vertex": digest}]})

    def has_room(self, size: int) -> bool:
        """Whether so many bytes more of what commands write are kept."""
        self._kept += size + _COST
        return self._kept <= _MOST_KEPT

    def close(self) -> None:
        """Nothing more comes."""
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def follow(self) -> Iterator[StatusResponse | None]:
        """All events from the first, until the last; None about each second in which there is none."""
        self.followed = True
        place = 0
        while True:
            with self._changed:
                if place == len(self._events) and not self._over:
                    self._changed.wait(1.0)
                found = self._events[place:]
                over = self._over and not found
            if over:
                return
            place += len(found)
            if not found:
                yield None
            yield from filter(None, found)


class Vertex:
    """One step, as the thread that makes it tells of it. digest: its name for others"""

    def __init__(self, progress: Progress, digest: str, name: str, inputs: tuple[str, ...]) -> None:
        """Tells nothing yet."""
        self.digest = digest
        self._progress = progress
        self._name = name
        self._inputs = inputs
        self._started: Timestamp | None = None
        self._cached = False
        self._logged = 0
        self._running: dict[str, VertexStatus] = {}
        self._counted: dict[str, int] = {}  # the place of what was told last of each

    def tell(self, completed: Timestamp | None = None, error: str = "") -> None:
        """Tell how it stands."""
        vertex: VertexMessage = {
            "digest": self.digest,
            "inputs": list(self._inputs),
            "name": self._name,
            "cached": self._cached,
            "started": self._started,
            "completed": completed,
            "error": error,
        }
        self._progress.add({"vertexes": [vertex]})

    def begin(self) -> None:
        """It begins."""
        self._started = now()
        self.tell()

    def cached(self) -> None:
        """It need not be made."""
        self._cached = True

    def log(self, data: bytes, stream: int) -> None:
        """What a command has written. stream: STDOUT or STDERR"""
        if self._logged > _MOST_LOGGED or not self._progress.has_room(len(data)):
            return
        self._logged += len(data)
        if self._logged > _MOST_LOGGED:
            data = data[: len(data) - (self._logged - _MOST_LOGGED)] + _CLIPPED
        self._progress.add({"logs": [{"vertex": self.digest, "timestamp": now(), "stream": stream, "msg": data}]})

    def count(self, id: str, current: int, total: int = 0, name: str = "", ended: bool = False) -> None:
        """Part of the step, named by `id`, has come so far: of `total` bytes, where that is known."""
        known = self._running.setdefault(id, {"ID": id, "vertex": self.digest, "started": now()})
        told = now()
        known |= {"name": name, "current": current, "total": total, "timestamp": told}
        if ended:
            known["completed"] = told
        self._counted[id] = self._progress.add({"statuses": [{**known}]}, self._counted.get(id, -1))

    def end(self, error: str = "") -> None:
        """It has ended. error: why it failed"""
        if self._started is None:
            self._started = now()
        self.tell(now(), error)
