"""What a client asks of the frontend `dockerfile.v0`, read from its options.

Pure. Every option has its place here; what this engine cannot do is refused in words, and no option is ignored.
"""

import base64
import csv
from collections.abc import Callable, Mapping

from engine.daemon import jsontext
from engine.daemon.builder import namedcontexts, stepgroups
from engine.daemon.builder.namedcontexts import NamedContext
from engine.daemon.images import image as documents
from engine.daemon.images import platform as platforms
from engine.daemon.jsontext import Object
from engine.dataclass import dataclass, field
from engine.errors import Invalid, NotBuilt
from engine.literals import BOOLEANS, boolean, integer, natural

_MOST_PLATFORMS = 64
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
    checksum: that the file of the context's URL must have, which a policy on sources may say; empty for any
    platform: the platforms, with commas between them; indexed: one alone is to be as several
    no_cache_stages: names of stages that are built anew
    contexts: names that stand for something else; input_configs: name of an input → the document of its image
    hostname: of the commands' containers, empty for one that is made up; cache_namespace: keeps caches of RUN apart
    syntax: the frontend that is to read the Dockerfile, empty for what that says itself
    command_line: how a file has asked for a frontend, which has handed it on; empty where none has
    """

    filename: str = "Dockerfile"
    context: str = ""
    dockerfile_key: str = "dockerfile"
    context_key: str = "context"
    request: str = ""
    own_dockerfile: bool = False
    subdir: str = ""
    checksum: str = ""
    keep_git_dir: bool = False
    sessions: dict[str, str] = field(default_factory=dict)
    target: str = ""
    no_cache: bool = False
    no_cache_stages: tuple[str, ...] = ()
    contexts: list[NamedContext] = field(default_factory=list)
    input_configs: dict[str, Object] = field(default_factory=dict)
    hostname: str = ""
    cache_namespace: str = ""
    syntax: str = ""
    command_line: str = ""
    pull: bool = False
    platform: str = ""
    indexed: bool = False
    args: dict[str, str | None] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    host: Object = field(default_factory=dict)


def _no_cache(asked: Asked, value: str) -> None:
    asked.no_cache = not value
    asked.no_cache_stages = tuple(name.strip().lower() for name in value.split(",") if name)


def _platform(asked: Asked, value: str) -> None:
    several = [each.strip() for each in value.split(",")]
    if len(several) > _MOST_PLATFORMS:
        raise Invalid(f"more than {_MOST_PLATFORMS} platforms at once")
    for each in several:
        platforms.parse(each)
    asked.platform = ",".join(several)


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


def _number(key: str) -> Callable[[Asked, str], None]:
    def keep(asked: Asked, value: str) -> None:
        if value:
            asked.host[key] = integer(value)

    return keep


def _text(key: str) -> Callable[[Asked, str], None]:
    def keep(asked: Asked, value: str) -> None:
        if value:
            asked.host[key] = value

    return keep


def _several(asked: Asked, value: str) -> None:
    """Whether the result is one for each platform, which it is where there are several of them."""
    wanted = boolean(value)
    if not wanted and "," in asked.platform:
        raise Invalid("conflicting config: returning multiple target platforms is not allowed")
    asked.indexed = wanted


def _group(asked: Asked, value: str) -> None:
    asked.host["CgroupParent"] = stepgroups.checked(value)


def _caps(_asked: Asked, value: str) -> None:
    """What the frontend must be able to do; `+forward` at the end of a capability leaves that to another frontend."""
    for cap in _listed(value):
        if cap.removesuffix(_FORWARD) not in _CAPS:
            raise NotBuilt(f"unsupported frontend capability {cap}")


def _keep_git_dir(asked: Asked, value: str) -> None:
    asked.keep_git_dir = BOOLEANS.get(value, False)  # another word changes nothing, as with BuildKit


def _hostname(asked: Asked, value: str) -> None:
    asked.hostname = value or asked.hostname


def _input_config(text: str) -> Object:
    """The document of an image in the metadata of an input, empty where it has none. Raises Invalid."""
    metadata = jsontext.parse(text, "input metadata")
    encoded = metadata.get(_CONFIG) if isinstance(metadata, dict) else None
    if encoded is None:
        return {}
    if not isinstance(encoded, str):
        raise Invalid("failed to parse input metadata: a text is expected")
    try:
        data = base64.b64decode(encoded, validate=True)
    except ValueError as error:
        raise Invalid(f"failed to parse input metadata: {error}") from error
    rootfs = documents.load(data, "image config").get("rootfs")
    layers = rootfs.get("diff_ids") if isinstance(rootfs, dict) else None
    return documents.config_of(data, len(layers) if isinstance(layers, list) else 0)


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
    "hostname": _set("hostname"),
    "cmdline": _set("command_line"),
    "multi-platform": _several,
    "memory": _number("Memory"),
    "memswap": _number("MemorySwap"),
    "cpushares": _number("CpuShares"),
    "cpuperiod": _number("CpuPeriod"),
    "cpuquota": _number("CpuQuota"),
    "cpusetcpus": _text("CpusetCpus"),
    "cpusetmems": _text("CpusetMems"),
    "requestid": _set("request"),
    "frontend.caps": _caps,
}
# Where in a repository the client's directories lie, and what is to be attested: `attesting` reads both. Where else the
# client's directories were built from: this engine keeps their mirrors apart by the client's own key. The image of the
# frontend that hands the file on to this one. And the caches, which `caching` reads where they stand a second time.
_ELSEWHERE = ("vcs:", "attest:", "sharedkey:localdir:", "source", "cache-imports")
# Build arguments that mean something to the frontend itself.
_BUILT_IN: Mapping[str, Callable[[Asked, str], None]] = {
    "build-arg:BUILDKIT_CACHE_MOUNT_NS": _set("cache_namespace"),
    "build-arg:BUILDKIT_CONTEXT_KEEP_GIT_DIR": _keep_git_dir,
    "build-arg:BUILDKIT_MULTI_PLATFORM": _several,
    "build-arg:BUILDKIT_SANDBOX_HOSTNAME": _hostname,
    "build-arg:BUILDKIT_SYNTAX": _set("syntax"),
}
# These are judged by what others say.
_LAST = ("multi-platform", "build-arg:BUILDKIT_MULTI_PLATFORM")
_CONTEXT, _INPUT, _CONFIG = "context:", "input-metadata:", "containerimage.config"
_ARGUMENT, _LABEL, _SESSION = "build-arg:", "label:", "local-sessionid:"


def read(options: Mapping[str, str]) -> Asked:
    """What a client asks. Raises Invalid, and NotBuilt for what this engine cannot do."""
    asked = Asked()
    for key, value in sorted(options.items(), key=lambda one: (one[0] in _LAST, one[0])):
        if key.startswith(_ARGUMENT):
            asked.args[key.removeprefix(_ARGUMENT)] = value
            _BUILT_IN.get(key, _nothing)(asked, value)
        elif key.startswith(_LABEL):
            asked.labels[key.removeprefix(_LABEL)] = value
        elif key.startswith(_SESSION):
            asked.sessions[key.removeprefix(_SESSION)] = value
        elif key.startswith(_ELSEWHERE):
            continue
        elif key.startswith(_CONTEXT):
            asked.contexts.append(namedcontexts.read(key.removeprefix(_CONTEXT), value))
        elif key.startswith(_INPUT):
            asked.input_configs[key.removeprefix(_INPUT)] = _input_config(value)
        elif key in _OPTIONS:
            _OPTIONS[key](asked, value)
        else:
            raise NotBuilt(f"the option {key} of {NAME} is not built in this engine")
    return asked
