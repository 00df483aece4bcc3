"""The verb `engine stats`: what containers use of the machine, shown anew every second.

Runs in the client's one thread. With a container's name the daemon sends its figures once a second; one poll loop reads
all of these streams. Without names the list of the running containers is asked for again at each picture.
"""

import select
import sys
import time
from collections.abc import Iterable, Iterator, Sequence

from engine.client.api import Api, ApiError, container_path
from engine.client.display import binary_size, short_id, shown_size
from engine.client.showing.listings import FORMAT, Listing, Row, lines, show
from engine.client.transport import Object, Response
from engine.commandline import Given, Option, given_text

OPTIONS = (
    Option("all", "Show all containers (default shows just running)", short="a", kind="flag", default=False),
    FORMAT,
    Option("no-stream", "Disable streaming stats and only pull the first result", kind="flag", default=False),
    Option("no-trunc", "Do not truncate output", kind="flag", default=False),
)
LISTING = Listing(
    {
        "Container": "CONTAINER",
        "ID": "CONTAINER ID",
        "Name": "NAME",
        "CPUPerc": "CPU %",
        "MemUsage": "MEM USAGE / LIMIT",
        "MemPerc": "MEM %",
        "NetIO": "NET I/O",
        "BlockIO": "BLOCK I/O",
        "PIDs": "PIDS",
    },
    ("ID", "Name", "CPUPerc", "MemUsage", "MemPerc", "NetIO", "BlockIO", "PIDs"),
)
_PICTURE_SECONDS = 0.5
_LIST_SECONDS = 2.0
_GONE = (404, 409)
# The screen is cleared from the cursor on; a line from its end on.
_HOME, _CLEAR_LINE, _CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
_CLEAR_ALL = "\x1b[2J"


def stats_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine stats [CONTAINER...]`. Raises Invalid, ApiError."""
    form, full = given_text(given, "format"), bool(given.get("no-trunc"))
    if given.get("no-stream"):
        # Of one container without a name for it, the daemon needs a second to know its use of the processor.
        show(LISTING, (stats_row(each, full) for each in _once(api, others or _listed(api, given))), form)
        return 0
    return _live(api, given, others, form, full)


def _once(api: Api, containers: Iterable[str]) -> Iterator[Object]:
    """The figures of each container. All of them are asked first, so that they are measured in the same second."""
    asked = [(name, _opened(api, name, stream=False)) for name in containers]
    for name, response in asked:
        with response:
            yield {**(response.json() or {}), "asked": name}


def _opened(api: Api, container: str, stream: bool) -> Response:
    return api.open("GET", container_path(container, "stats"), {"stream": "1" if stream else "0"})


def _listed(api: Api, given: Given) -> list[str]:
    found = api.call("GET", "/containers/json", {"all": bool(given.get("all"))})
    return [container["Id"] for container in found]


def _live(api: Api, given: Given, others: Sequence[str], form: str, full: bool) -> int:
    streams = _Streams(api)
    for name in others:
        streams.add(name)
    listed = 0.0
    terminal = sys.stdout.isatty()
    if terminal:
        sys.stdout.write(_CLEAR_ALL)
    try:
        while others == () or not others or streams.names:
            now = time.monotonic()
            if not others and now - listed >= _LIST_SECONDS:
                listed = now
                streams.keep(_listed(api, given))
            streams.read(_PICTURE_SECONDS)
            rows = [stats_row({**streams.latest.get(name, {}), "asked": name}, full) for name in streams.names]
            _picture(lines(LISTING, rows, form), terminal)
    finally:
        streams.close()
    return 0


def _picture(texts: Iterator[str], terminal: bool) -> None:
    text = "\n".join(texts)
    if terminal:
        text = _HOME + text.replace("\n", _CLEAR_LINE + "\n") + _CLEAR_LINE + "\n" + _CLEAR_BELOW
    else:
        text += "\n"
    sys.stdout.write(text)
    sys.stdout.flush()


class _Streams:
    """The streams of figures, one a container.

    names: of the containers, in order; latest: the last figures of each
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self.names: list[str] = []
        self.latest: dict[str, Object] = {}
        self._open: dict[str, tuple[Response, Iterator[Object]]] = {}

    def add(self, name: str) -> None:
        """Ask for one more. Raises ApiError."""
        response = _opened(self._api, name, stream=True)
        self._open[name] = response, response.documents()
        self.names.append(name)

    def keep(self, names: Sequence[str]) -> None:
        """Have the streams of these containers, and of no other."""
        for name in [name for name in self.names if name not in names]:
            self._drop(name)
        for name in names:
            if name not in self._open:
                try:
                    self.add(name)
                except ApiError as error:
                    if error.status not in _GONE:
                        raise

    def read(self, seconds: float) -> None:
        """Take what comes in within so long."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            poll = select.poll()
            places = {response.fileno(): name for name, (response, _) in self._open.items()}
            for fd in places:
                poll.register(fd, select.POLLIN)
            for fd, _ in poll.poll(left * 1000):
                name = places[fd]
                document = next(self._open[name][1], None)
                if document is None:
                    self._drop(name)
                else:
                    self.latest[name] = document

    def _drop(self, name: str) -> None:
        self.names.remove(name)
        self._open.pop(name)[0].__exit__()
        self.latest.pop(name, None)

    def close(self) -> None:
        """Close them all."""
        for name in list(self.names):
            self._drop(name)


def stats_row(found: Object, full: bool) -> Row:
    """The fields of the figures of one container; `--` for each that is not known yet.

    found: an answer of GET /containers/ID/stats, with `asked` for the name that was asked for
    """
    identity = found.get("id", "") or found["asked"]
    memory, known = found.get("memory_stats") or {}, "memory_stats" in found
    used, limit = memory_used(memory), memory.get("limit", 0)
    networks = (found.get("networks") or {}).values()
    received, sent = (sum(each.get(name, 0) for each in networks) for name in ("rx_bytes", "tx_bytes"))
    blocks = (found.get("blkio_stats") or {}).get("io_service_bytes_recursive") or ()
    read, written = (sum(each["value"] for each in blocks if each["op"].lower() == kind) for kind in ("read", "write"))
    return {
        "Container": found["asked"]
        if full
        else short_id(found["asked"])
        if found["asked"] == identity
        else found["asked"],
        "ID": identity if full else short_id(identity),
        "Name": found.get("name", "--").lstrip("/"),
        "CPUPerc": f"{processor_percent(found):.2f}%" if known else "--",
        "MemUsage": f"{binary_size(used)} / {binary_size(limit)}" if known else "-- / --",
        "MemPerc": f"{used / limit * 100 if limit else 0:.2f}%" if known else "--",
        "NetIO": f"{shown_size(received)} / {shown_size(sent)}" if known else "--",
        "BlockIO": f"{shown_size(read)} / {shown_size(written)}" if known else "--",
        "PIDs": str((found.get("pids_stats") or {}).get("current", 0)) if known else "--",
    }


def memory_used(memory: Object) -> int:
    """The memory that a container uses, without the pages of files that it could give back at once."""
    usage, details = memory.get("usage", 0), memory.get("stats") or {}
    # cgroups v1 has the first name, v2 the second one.
    inactive = details.get("total_inactive_file", details.get("inactive_file", 0))
    return int(usage - inactive if inactive < usage else usage)


def processor_percent(found: Object) -> float:
    """The share of one processor that the container has had between the last two measures, in percent."""
    now, before = found.get("cpu_stats") or {}, found.get("precpu_stats") or {}
    used = now.get("cpu_usage", {}).get("total_usage", 0) - before.get("cpu_usage", {}).get("total_usage", 0)
    passed = now.get("system_cpu_usage", 0) - before.get("system_cpu_usage", 0)
    processors = now.get("online_cpus") or len(now.get("cpu_usage", {}).get("percpu_usage") or ()) or 1
    return used / passed * processors * 100 if used > 0 and passed > 0 else 0.0


FUNCTIONS = {"stats": (stats_verb, OPTIONS)}
