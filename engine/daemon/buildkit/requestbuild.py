"""Builds by BuildKit that a request to POST /build asks for with `version=2`, as clients did before buildx.

The request's thread builds. Another one tells the client what the build does, line by line: each message of progress in
binary form, then the image. Of what BuildKit has nothing like, and dockerd leaves out without a word, the limits hold
for each step here as with the classic builder, and the rest is refused.
"""

import base64
import contextlib
import os
import threading
from collections.abc import Callable, Iterator

from engine.annotating import Protocol
from engine.daemon.builder import options
from engine.daemon.builder.context import Source
from engine.daemon.builder.graph.work import HOST_NETWORK
from engine.daemon.builder.options import Query
from engine.daemon.buildkit import controlservice, uploads, wishes
from engine.daemon.buildkit.jobs import Job
from engine.daemon.buildkit.messages.control import CacheOptionsEntry, Exporter, SolveRequest, StatusResponse
from engine.daemon.buildkit.progress import Progress
from engine.daemon.images import platform as platforms
from engine.daemon.jsontext import Object
from engine.daemon.parts import DaemonParts
from engine.daemon.runtime import worker
from engine.dataclass import dataclass
from engine.errors import Conflict, Invalid, SystemFailure
from engine.literals import boolean, quoted
from engine.protocols import protobuf

VERSION = "2"
_IMAGE, _NOTHING = "moby", "cacheonly"
_UPLOAD = "upload-request"
_SESSION = "client-session"
_MOST_RUNNING = 1000
# Parameters that BuildKit has nothing for, and the values that ask for nothing.
_UNKNOWN = {
    "squash": ("", "0", "false", "False"),
    "isolation": ("", "default"),
    "securityopt": ("", "null", "[]"),
}
_LIMITS = ("memory", "memswap", "cpushares", "cpuperiod", "cpuquota", "cpusetcpus", "cpusetmems")
_lock = threading.Lock()
_running: dict[str, Callable[[str], None]] = {}  # by the ids that their clients gave them, what gives them up


class Client(Protocol):
    """The client of a request. `send` sends a line and raises where the client has gone."""

    def send(self, line: Object) -> None: ...

    def gone(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks for. id: the client's own, by which the build is cancelled; upload: the body is for `id`

    remote: as the client sent it; quiet: only the image is told
    """

    solve: SolveRequest
    id: str
    upload: bool
    remote: str
    quiet: bool


def read(query: Query) -> Asked:
    """What the parameters of a request ask for. Raises Invalid."""
    for name, fitting in _UNKNOWN.items():
        if query.text(name) not in fitting:
            raise Invalid(f"{name} is not supported by BuildKit: build with the classic builder (DOCKER_BUILDKIT=0)")
    id = query.text("buildid")
    upload = id.startswith(f"{_UPLOAD}:")
    arguments = options.table(query, "buildargs", "buildargs", options.is_argument)
    solve: SolveRequest = {
        "Ref": os.urandom(16).hex(),
        "Session": query.text("session"),
        "Frontend": wishes.NAME,
        "FrontendAttrs": _attributes(query, arguments),
        "Exporters": _exporters(query),
        "Entitlements": [HOST_NETWORK] if query.text("networkmode") == "host" else [],
        "Cache": {"Exports": _inline(arguments), "Imports": _imports(query)},
    }
    return Asked(solve, id.removeprefix(f"{_UPLOAD}:"), upload, query.text("remote"), query.flag("q"))


def _attributes(query: Query, arguments: dict[str, str | None]) -> dict[str, str]:
    """The options of the frontend."""
    network = query.text("networkmode")
    if network not in ("", "default", "host", "none"):
        raise Invalid(f"network mode {quoted(network)} not supported by buildkit")
    platform = query.text("platform")
    if platform:
        platforms.parse(platform)
    given = {
        "target": query.text("target"),
        "filename": query.text("dockerfile") if query.text("dockerfile") != "." else "",
        "image-resolve-mode": "pull" if query.flag("pull") else "default",
        "platform": platform,
        "force-network-mode": network if network in ("host", "none") else "",
        "add-hosts": ",".join(_hosts(query)),
        "shm-size": str(query.number("shmsize") or ""),
        "ulimit": ",".join(_limits(query)),
        "cgroup-parent": query.text("cgroupparent"),
        **{name: query.text(name) for name in _LIMITS if query.text(name) != "0"},
    }
    labels = options.table(query, "labels", "labels", options.is_argument)
    return {
        **{key: value for key, value in given.items() if value},
        **({"no-cache": ""} if query.flag("nocache") else {}),
        **{f"build-arg:{key}": value for key, value in arguments.items() if value is not None},
        **{f"label:{key}": value for key, value in labels.items() if value is not None},
    }


def _hosts(query: Query) -> Iterator[str]:
    for each in query.every("extrahosts"):
        host, _, address = each.partition(":")
        if not host or not address:
            raise Invalid(f"invalid host {each}")
        yield f"{host}={address}"


def _limits(query: Query) -> Iterator[str]:
    for each in options.listed(query, "ulimits", "ulimits", options.is_limit):
        yield f"{each['Name']}={each.get('Soft', 0)}:{each.get('Hard', 0)}"


def _exporters(query: Query) -> list[Exporter]:
    found = options.listed(query, "outputs", "outputs", _is_output)
    if len(found) > 1:
        raise Invalid("multiple outputs not supported")
    kind, attributes = _IMAGE, dict[str, str]()
    for each in found:
        kind, attributes = each["Type"], dict(each.get("Attrs") or {})
    if kind == _NOTHING:
        return []
    names = dict.fromkeys(options.tag(each).canonical for each in query.every("t") if each)
    if names and kind in (_IMAGE, "image"):
        attributes["name"] = ",".join(names)
    return [{"Type": kind, "Attrs": attributes}]


def _is_output(value: object) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("Type"), str):
        return False
    attributes = value.get("Attrs") or {}
    return isinstance(attributes, dict) and all(map(options.is_text, attributes.values()))


def _inline(arguments: dict[str, str | None]) -> list[CacheOptionsEntry]:
    """The cache goes into the image where an argument asks for it; a value that is no flag asks for nothing."""
    with contextlib.suppress(Invalid):
        if boolean(arguments.get("BUILDKIT_INLINE_CACHE") or ""):
            return [{"Type": "inline"}]
    return []


def _imports(query: Query) -> list[CacheOptionsEntry]:
    found = options.listed(query, "cachefrom", "cachefrom", options.is_text)
    return [{"Type": "registry", "Attrs": {"ref": each}} for each in found if each]


def build(engine: DaemonParts, asked: Asked, body: Source, client: Client) -> None:
    """Build what a request asks for, and tell its client. Raises EngineErrors, and what `client.send` raises.

    body: of the request; a context, unless the context is elsewhere
    """
    if asked.upload:
        uploads.bring(asked.id, body)
        return
    with contextlib.ExitStack() as stack:
        if asked.remote == _UPLOAD:
            body = stack.enter_context(uploads.brought(asked.id))
        if asked.remote in ("", _UPLOAD):
            asked.solve["FrontendAttrs"]["context"] = stack.enter_context(uploads.offered(body))
        elif asked.remote != _SESSION:
            asked.solve["FrontendAttrs"]["context"] = asked.remote
        telling = _Telling(client, asked.quiet)
        whole = protobuf.decode(SolveRequest, protobuf.encode(SolveRequest, asked.solve))

        def begun(job: Job) -> None:
            if asked.id:
                stack.enter_context(_cancellable(asked.id, job.give_up))
            telling.begin(job)

        try:
            told = controlservice.built(engine, whole, begun)
        finally:
            telling.end()
    if any(each["Type"] in (_IMAGE, "image") for each in whole["Exporters"]):
        digest = told.get("containerimage.digest")
        if digest is None:
            raise SystemFailure("missing image id")
        client.send({"id": "moby.image.id", "aux": {"ID": digest}} if not asked.quiet else {"stream": f"{digest}\n"})


@contextlib.contextmanager
def _cancellable(id: str, give_up: Callable[[str], None]) -> Iterator[None]:
    """The build can be cancelled by this id. Raises Conflict for one that another build has."""
    with _lock:
        if id in _running or len(_running) >= _MOST_RUNNING:
            raise Conflict(f"a build with the id {id} runs already, or too many run")
        _running[id] = give_up
    try:
        yield
    finally:
        with _lock:
            del _running[id]


def cancel(id: str) -> None:
    """End the build with this id of its client's; nothing where none runs. Raises Invalid."""
    if not id:
        raise Invalid("build ID not provided")
    with _lock:
        give_up = _running.get(id)
    if give_up is not None:
        give_up("the build was cancelled")


class _Telling:
    """Tells a client what a build does, in a thread of its own, and ends the build when the client goes."""

    def __init__(self, client: Client, quiet: bool) -> None:
        self._client = client
        self._quiet = quiet
        self._done = threading.Event()
        self._begun = False

    def begin(self, job: Job) -> None:
        """The build begins."""
        self._begun = True
        worker.begin("build progress", lambda: self._follow(job, job.progress))

    def end(self) -> None:
        """The build has ended: wait until the client was told all."""
        if self._begun:
            self._done.wait()

    def _follow(self, job: Job, progress: Progress) -> None:
        try:
            for event in progress.follow():
                if event is None:
                    if self._client.gone():
                        job.give_up("the client has gone")
                elif not self._quiet:
                    data = base64.b64encode(protobuf.encode(StatusResponse, event)).decode()
                    self._client.send({"id": "moby.buildkit.trace", "aux": data})
        except Exception:
            job.give_up("the client has gone")
            if not self._client.gone():
                raise
        finally:
            self._done.set()
