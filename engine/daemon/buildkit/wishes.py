"""What a client asks of the frontend `dockerfile.v0`, read from its options.

Pure. Every option has its place here; what this engine cannot do is refused in words, and no option is ignored.
"""

import csv
from collections.abc import Callable, Mapping

from engine.daemon.images import platform as platforms
from engine.daemon.jsontext import Object
from engine.dataclass import dataclass, field
from engine.errors import Invalid, NotBuilt
from engine.literals import BOOLEANS, integer, natural

NAME = "dockerfile.v0"
"""What clients call the frontend."""


@dataclass(slots=True)
class Asked:
    """What the client asks of the frontend.

    filename: of the Dockerfile in its directory; host: part of a HostConfig
    context: URL of the context, empty for a directory of the client; dockerfile_key, context_key: what it calls its two
    directories; sessions: name of a directory → id of the session that has it, if not the build's own
    request: a question that is asked in the place of a build, empty for a build
    own_dockerfile: the Dockerfile comes from a directory of the client, also where the context does not
    subdir: the directory of a context from a URL that is the context; keep_git_dir: git's own files are part of it
    """

    filename: str = "Dockerfile"
    context: str = ""
    dockerfile_key: str = "dockerfile"
    context_key: str = "context"
    request: str = ""
    own_dockerfile: bool = False
    subdir: str = ""
    keep_git_dir: bool = False
    sessions: dict[str, str] = field(default_factory=dict)
    target: str = ""
    no_cache: bool = False
    pull: bool = False
    platform: str = ""
    args: dict[str, str | None] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    host: Object = field(default_factory=dict)


def _no_cache(asked: Asked, value: str) -> None:
    if value:
        raise NotBuilt("building some stages without the cache (--no-cache-filter) is not built in this engine")
    asked.no_cache = True


def _platform(asked: Asked, value: str) -> None:
    if "," in value:
        raise NotBuilt("building for several platforms at once is not built in this engine")
    platforms.parse(value)
    asked.platform = value


def _hosts(asked: Asked, value: str) -> None:
    asked.host["ExtraHosts"] = [":".join(each.split("=", 1)) for each in _listed(value)]


def _network(asked: Asked, value: str) -> None:
    modes = {"host": "host", "none": "none", "sandbox": "default", "": "default"}
    if value not in modes:
        raise Invalid(f"invalid network mode {value}")
    asked.host["NetworkMode"] = modes[value]


def _memory(asked: Asked, value: str) -> None:
    size = natural(value, 1 << 62)
    if size is None:
        raise Invalid(f"invalid shm-size: {value}")
    asked.host["ShmSize"] = size


def _limits(asked: Asked, value: str) -> None:
    limits = []
    for each in _listed(value):
        name, _, numbers = each.partition("=")
        soft, _, hard = numbers.partition(":")
        if not name:
            raise Invalid(f"invalid ulimit: {each}")
        limits.append({"Name": name, "Soft": integer(soft), "Hard": integer(hard or soft)})
    asked.host["Ulimits"] = limits


def _listed(value: str) -> list[str]:
    """The values of a line of comma-separated ones, which may be quoted."""
    try:
        return next(csv.reader([value]), [])
    except csv.Error as error:
        raise Invalid(f"invalid list of values: {error}") from error


def _dockerfile_key(asked: Asked, value: str) -> None:
    asked.dockerfile_key, asked.own_dockerfile = value, True


def _set(name: str) -> Callable[[Asked, str], None]:
    return lambda asked, value: setattr(asked, name, value)


def _resolve(asked: Asked, value: str) -> None:
    if value not in ("", "default", "local", "pull"):
        raise Invalid(f"invalid image-resolve-mode: {value}")
    asked.pull = value == "pull"


def _group(asked: Asked, value: str) -> None:
    asked.host["CgroupParent"] = value


def _caps(_asked: Asked, value: str) -> None:
    """What the frontend must be able to do; `+forward` at the end of a capability leaves that to another frontend."""
    for cap in _listed(value):
        if cap.removesuffix(_FORWARD) not in _CAPS:
            raise NotBuilt(f"unsupported frontend capability {cap}")


def _keep_git_dir(asked: Asked, value: str) -> None:
    asked.keep_git_dir = BOOLEANS.get(value, False)  # another word changes nothing, as with BuildKit


def _nothing(_asked: Asked, _value: str) -> None:
    """An argument of the Dockerfile's own."""


_FORWARD = "+forward"
_CAPS = tuple(f"moby.buildkit.frontend.{name}" for name in ("inputs", "subrequests", "contexts"))
_OPTIONS: Mapping[str, Callable[[Asked, str], None]] = {
    "filename": _set("filename"),
    "target": _set("target"),
    "no-cache": _no_cache,
    "platform": _platform,
    "add-hosts": _hosts,
    "force-network-mode": _network,
    "shm-size": _memory,
    "ulimit": _limits,
    "cgroup-parent": _group,
    "image-resolve-mode": _resolve,
    "context": _set("context"),
    "dockerfilekey": _dockerfile_key,
    "contextsubdir": _set("subdir"),
    "contextkey": _set("context_key"),
    "requestid": _set("request"),
    "frontend.caps": _caps,
}
# Where in a repository the client's directories lie, and what is to be attested: `attesting` reads both.
_ELSEWHERE = ("vcs:", "attest:")
# Build arguments that mean something to the frontend itself.
_BUILT_IN: Mapping[str, Callable[[Asked, str], None]] = {
    "build-arg:BUILDKIT_CONTEXT_KEEP_GIT_DIR": _keep_git_dir,
}
_ARGUMENT, _LABEL, _SESSION = "build-arg:", "label:", "local-sessionid:"


def read(options: Mapping[str, str]) -> Asked:
    """What a client asks. Raises Invalid, and NotBuilt for what this engine cannot do."""
    asked = Asked()
    for key, value in sorted(options.items()):
        if key.startswith(_ARGUMENT):
            asked.args[key.removeprefix(_ARGUMENT)] = value
            _BUILT_IN.get(key, _nothing)(asked, value)
        elif key.startswith(_LABEL):
            asked.labels[key.removeprefix(_LABEL)] = value
        elif key.startswith(_SESSION):
            asked.sessions[key.removeprefix(_SESSION)] = value
        elif key.startswith(_ELSEWHERE):
            continue
        elif key in _OPTIONS:
            _OPTIONS[key](asked, value)
        else:
            raise NotBuilt(f"the option {key} of {NAME} is not built in this engine")
    return asked
