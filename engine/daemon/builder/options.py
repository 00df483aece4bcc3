"""The options of one build, read and checked from the query parameters of POST /build.

Pure; runs in the request's thread before anything of the body is read. Every parameter of the API's definition has its
place here. What this builder cannot do is refused in words: no parameter is ignored.
"""

import json
from collections.abc import Callable
from typing import Any, Protocol

from engine.daemon import jsontext
from engine.daemon.builder import stepgroups
from engine.daemon.builder.namedcontexts import NamedContext
from engine.daemon.builder.sourcechecks import SourceChecks
from engine.daemon.images.reference import Reference
from engine.daemon.jsontext import Object
from engine.dataclass import dataclass, field
from engine.errors import Invalid

_CLASSIC = "1"


def _none(_host: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one build.

    tags: the names that the image is to get; args: build arguments, None for one without a value
    no_cache_stages: names of stages that are built without it
    contexts: names that stand for something else; hostname: of the commands' containers, empty for one that is made up
    cache_namespace: keeps caches of RUN apart from those of other builds; checks: of its sources
    remote: URL of the context, empty for the request's body; cache_from: images whose layers the client trusts
    remove: remove the containers of steps; force_remove: also that of a step that has failed
    platform: as the client wrote it, or empty; host: the part of HostConfig that every container of a step gets
    credentials: returns those for a registry, by its host; shows_ids: lines with `aux` are wanted
    """

    tags: tuple[Reference, ...] = ()
    dockerfile: str = "Dockerfile"
    remote: str = ""
    quiet: bool = False
    no_cache: bool = False
    no_cache_stages: tuple[str, ...] = ()
    contexts: tuple[NamedContext, ...] = ()
    hostname: str = ""
    cache_namespace: str = ""
    checks: SourceChecks = SourceChecks()
    cache_from: tuple[str, ...] = ()
    pull: bool = False
    remove: bool = True
    force_remove: bool = False
    args: dict[str, str | None] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    target: str = ""
    platform: str = ""
    host: Object = field(default_factory=dict)
    credentials: Callable[[str], Object | None] = _none
    shows_ids: bool = True


class Query(Protocol):
    """The part of `api.query.Query` that is used here."""

    def text(self, name: str, default: str = "") -> str: ...

    def every(self, name: str) -> list[str]: ...

    def flag(self, name: str, default: bool = False) -> bool: ...

    def number(self, name: str, default: int | None = None) -> int | None: ...


# Parameter → the key of HostConfig that it sets for each container of a step.
_NUMBERS = {
    "memory": "Memory",
    "memswap": "MemorySwap",
    "cpushares": "CpuShares",
    "cpuperiod": "CpuPeriod",
    "cpuquota": "CpuQuota",
    "shmsize": "ShmSize",
}
_TEXTS = {"cpusetcpus": "CpusetCpus", "cpusetmems": "CpusetMems", "cgroupparent": "CgroupParent"}


def read(query: Query, credentials: Callable[[str], Object | None], shows_ids: bool) -> Options:
    """The options of a request. Raises Invalid."""
    _refuse(query)
    force = query.flag("forcerm")
    # An empty parameter counts as one that is not given.
    remove = query.flag("rm") if query.text("rm") else True
    return Options(
        tags=tuple(dict.fromkeys(tag(text) for text in query.every("t") if text)),
        dockerfile=query.text("dockerfile") or "Dockerfile",
        remote=query.text("remote"),
        quiet=query.flag("q"),
        no_cache=query.flag("nocache"),
        cache_from=tuple(listed(query, "cachefrom", "cache-from", is_text)),
        pull=query.flag("pull"),
        remove=remove or force,
        force_remove=force,
        args=table(query, "buildargs", "build args", is_argument),
        labels=table(query, "labels", "labels", is_text),
        target=query.text("target"),
        platform=query.text("platform"),
        host=_host(query),
        credentials=credentials,
        shows_ids=shows_ids,
    )


def _refuse(query: Query) -> None:
    version = query.text("version") or _CLASSIC
    if version != _CLASSIC:
        raise Invalid(f"invalid version {version}")
    if query.flag("squash"):
        raise Invalid("squash is only supported with experimental mode, which this engine does not have")
    if listed(query, "outputs", "outputs", lambda _: True):
        raise Invalid("outputs are only supported by BuildKit: docker save and docker export write what was built")
    isolation = query.text("isolation")
    if isolation.lower() not in ("", "default"):
        raise Invalid(f'Unsupported isolation: "{isolation}"')
    if query.every("securityopt"):
        raise Invalid("The daemon on this platform does not support setting security options on build")


def tag(text: str) -> Reference:
    """A name that the image is to get. Raises Invalid."""
    reference = Reference.parse(text)
    if reference.digest:
        raise Invalid("build tag cannot contain a digest")
    return reference.with_default_tag()


def listed(query: Query, name: str, shown: str, fits: Callable[[object], bool]) -> list[Any]:
    """A parameter whose value is a JSON list with items that all fit; empty when it is not given, or null."""
    value = _json(query, name, shown)
    if value is None:
        return []
    if not isinstance(value, list) or not all(map(fits, value)):
        raise _wrong_type(name, shown)
    return value


def table(query: Query, name: str, shown: str, fits: Callable[[object], bool]) -> Object:
    """A parameter whose value is a JSON object with values that all fit; empty when it is not given, or null."""
    value = _json(query, name, shown)
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(map(fits, value.values())):
        raise _wrong_type(name, shown)
    return value


def _wrong_type(name: str, shown: str) -> Invalid:
    return Invalid(f"error reading {shown}: {name} is of the wrong type")


def _json(query: Query, name: str, shown: str) -> object:
    """The decoded JSON value of a parameter; None when it is not given, or null."""
    text = query.text(name)
    if not text:
        return None
    try:
        return jsontext.parse(text, shown)
    except Invalid as error:
        raise Invalid(f"error reading {shown}: {_reason(text) or error}") from error


def _reason(text: str) -> str:
    """Go's error text for JSON that ends too early, which is the error that clients meet; empty for any other error."""
    if jsontext.deeper_than(jsontext.DEEPEST, text):
        return ""
    try:
        json.loads(text, parse_int=str)
    except json.JSONDecodeError as error:
        return "unexpected end of JSON input" if error.pos >= len(text.rstrip()) else ""
    return ""


def is_text(value: object) -> bool:
    """Whether it is a text."""
    return isinstance(value, str)


def is_argument(value: object) -> bool:
    """Whether it is a text or nothing."""
    return value is None or isinstance(value, str)


def _host(query: Query) -> Object:
    asked: Object = {key: query.number(name, 0) for name, key in _NUMBERS.items()}
    asked |= {key: query.text(name) for name, key in _TEXTS.items()}
    stepgroups.checked(asked["CgroupParent"])
    asked["NetworkMode"] = query.text("networkmode") or "default"
    asked["ExtraHosts"] = _extra_hosts(query)
    asked["Ulimits"] = listed(query, "ulimits", "ulimit settings", is_limit)
    return {key: value for key, value in asked.items() if value}


def _extra_hosts(query: Query) -> list[str]:
    # The client sends one parameter for each host, or a single one with commas between the hosts.
    return [each for text in query.every("extrahosts") for each in text.split(",") if each]


def is_limit(value: object) -> bool:
    """Whether it is a limit of a process with its name."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("Name"), str)
        and all(isinstance(value.get(key, 0), int) for key in ("Hard", "Soft"))
    )
