"""The API versions that the daemon speaks, and how requests and answers of older versions differ from the newest one.

Pure; used by request threads. A handler answers as the newest version does. A function in here then changes the answer
to what an older client expects.
"""

from collections.abc import Sequence

from engine.daemon.api.answers import MULTIPLEXED_STREAM, RAW_STREAM
from engine.daemon.jsontext import Object
from engine.errors import Invalid
from engine.late import TYPE_CHECKING, late
from engine.regex import regex
from engine.settings.advertised import REPORTED_VERSION
from engine.settings.storagedriver import GRAPH_DRIVERS

if TYPE_CHECKING:  # loaded with the first container that is shown
    from engine.daemon.containers import ports
    from engine.daemon.network import record
else:
    ports = late("engine.daemon.containers.ports")
    record = late("engine.daemon.network.record")

Version = tuple[int, int]

NEWEST: Version = (1, 54)
OLDEST = (1, 24)
NEWEST_TEXT = "1.54"
OLDEST_TEXT = "1.24"
OLD_COMPOSE, OLD_COMPOSE_SPEAKS = "docker-compose/1.", "1.41"

_BUILD_IDS_SINCE = (1, 30)
# Before, the first start gave it: compose 1 connects a container that lacks it once more, and tells links only then.
_SHORT_ALIAS_AT_CREATE = (1, 44)
_ARCHIVE_PLATFORMS_SINCE = (1, 52)
# The query parameters that an endpoint has not always had: route → parameter → the first version with it.
_PARAMETERS: dict[str, dict[str, Version]] = {
    "POST /containers/create": {"platform": (1, 41)},
    "GET /containers/{id}/logs": {"format": (1, 54)},
    "POST /images/create": {"platform": (1, 32)},
    "GET /images/json": {"shared-size": (1, 42), "manifests": (1, 47), "identity": (1, 54)},
    "POST /images/{name...}/push": {"platform": (1, 46)},
    "GET /images/{name...}/history": {"platform": (1, 48)},
    "GET /images/{name...}/json": {"manifests": (1, 48), "platform": (1, 49)},
    "DELETE /images/{name...}": {"platforms": (1, 50)},
    "POST /images/load": {"platform": (1, 48)},
    "GET /images/get": {"platform": (1, 48)},
    "GET /images/{name...}/get": {"platform": (1, 48)},
}

_IDENTITY = f"Api-Version: {NEWEST_TEXT}\r\nDocker-Experimental: %s\r\nOstype: linux\r\nServer: Docker/%s (linux)\r\n"
# What the settings say of this daemon, see `declare`.
_declared = {"identity": _IDENTITY % ("false", REPORTED_VERSION), "oldest": OLDEST_TEXT}

# What NetworkSettings had beside Networks until 1.51: the address on the default network (_ADDRESS), and fields that
# were never filled in (_NEVER_FILLED).
_ADDRESS = {
    "EndpointID": "",
    "Gateway": "",
    "GlobalIPv6Address": "",
    "GlobalIPv6PrefixLen": 0,
    "IPAddress": "",
    "IPPrefixLen": 0,
    "IPv6Gateway": "",
    "MacAddress": "",
}
_SHORT = 12
_NEVER_FILLED = {
    "Bridge": "",
    "HairpinMode": False,
    "LinkLocalIPv6Address": "",
    "LinkLocalIPv6PrefixLen": 0,
    "SecondaryIPAddresses": None,
    "SecondaryIPv6Addresses": None,
}

# The configuration of a container that asks for nothing.
_NO_CONTAINER = {
    **dict.fromkeys(("Hostname", "Domainname", "User", "Image", "WorkingDir"), ""),
    **dict.fromkeys(("AttachStdin", "AttachStdout", "AttachStderr", "Tty", "OpenStdin", "StdinOnce"), False),
    **dict.fromkeys(("Env", "Cmd", "Volumes", "Entrypoint", "OnBuild", "Labels")),
}

_PREFIX = regex(r"/v([0-9]{1,5}\.[0-9]{1,5})(?=/)")


def split_version(path: str) -> tuple[str, str]:
    """The version text of a path (empty when the path has none) and the rest of the path."""
    prefix = _PREFIX.match(path)
    return (prefix.group(1), path[prefix.end() :]) if prefix else ("", path)


def parse_version(text: str) -> Version:
    """The two numbers of a version text; an empty text is the newest version."""
    if not text:
        return NEWEST
    major, _, minor = text.partition(".")
    return int(major), int(minor)


def newest_for(user_agent: str) -> str:
    """The newest version that the daemon names to this client.

    docker-compose 1 speaks the newest version that a daemon names, and fails on all that was left out since it was
    written.
    """
    return OLD_COMPOSE_SPEAKS if user_agent.startswith(OLD_COMPOSE) else NEWEST_TEXT


def declare(experimental: bool, oldest: str, reported: str) -> None:
    """Have this daemon say from now on that it is experimental, and of the version `reported`, and speak no API version
    before `oldest`.
    """
    _declared.update(identity=_IDENTITY % ("true" if experimental else "false", reported), oldest=oldest)


def identity() -> str:
    """The headers that every answer carries, so that a client learns which server and version it talks to."""
    return _declared["identity"]


def check_version(text: str, version: Version) -> None:
    """Raise Invalid in docker's words for a version that the daemon does not speak."""
    if version > NEWEST:
        raise Invalid(f"client version {text} is too new. Maximum supported API version is {NEWEST_TEXT}")
    oldest = _declared["oldest"]
    if version < OLDEST or (oldest != OLDEST_TEXT and version < parse_version(oldest)):
        raise Invalid(
            f"client version {text} is too old. Minimum supported API version is {oldest}, "
            "please upgrade your client to a newer version"
        )


def unknown_parameters(version: Version, route: str) -> list[str]:
    """The query parameters of a route, as `GET /images/json`, that this version does not have and dockerd ignores."""
    return [name for name, since in _PARAMETERS.get(route, {}).items() if version < since]


def tells_ids(version: Version) -> bool:
    """Whether POST /build tells the ids of what it makes, in lines with `aux`."""
    return version >= _BUILD_IDS_SINCE


def check_platforms(version: Version, platforms: Sequence[str]) -> None:
    """Raise Invalid, in dockerd's words, where images are saved or loaded for several platforms before 1.52."""
    if len(platforms) > 1 and version < _ARCHIVE_PLATFORMS_SINCE:
        raise Invalid("multiple platform parameters not supported")


def plain_errors(version: Version) -> bool:
    """True where an error is plain text: errors were not JSON before 1.24. Clients that old are only
    told to upgrade.
    """
    return version < (1, 24)


def stream_type(version: Version, terminal: bool) -> str:
    """The content type of a container's output. Before 1.42 no answer told that the output is in frames."""
    return MULTIPLEXED_STREAM if version >= (1, 42) and not terminal else RAW_STREAM


def chooses_streams(version: Version) -> bool:
    """Whether a client that attaches over a WebSocket chooses its streams; before 1.42 it got all of them."""
    return version >= (1, 42)


def has_text_frames(version: Version) -> bool:
    """Whether a WebSocket carries a container's output in text frames; since 1.28 they are binary."""
    return version < (1, 28)


def takes_console_size(version: Version) -> bool:
    """Whether a client can give an exec the size of its terminal."""
    return version >= (1, 42)


def has_cluster_volumes(version: Version) -> bool:
    """Whether a client can ask for a volume that only a swarm has."""
    return version >= (1, 42)


def prunes_named_volumes(version: Version) -> bool:
    """Whether a prune takes named volumes too when its filters do not say; since 1.42 it spares them."""
    return version < (1, 42)


def takes_service_status(version: Version) -> bool:
    """Whether a client can ask for the state of each service in a list of services."""
    return version >= (1, 41)


def updated(version: Version, body: Object) -> Object:
    """The body of POST /containers/{id}/update; before 1.40 a client could not change the limit of processes."""
    return body if version >= (1, 40) else {key: value for key, value in body.items() if key != "PidsLimit"}


def image_filters(version: Version, filters: dict[str, tuple[str, ...]], old: str) -> dict[str, tuple[str, ...]]:
    """The filters of GET /images/json; before 1.41 a pattern could also stand in the parameter `filter`, here `old`."""
    if old and version < (1, 41):
        return {**filters, "reference": (*filters.get("reference", ()), old)}
    return filters


def binds_shallowly(version: Version) -> bool:
    """Whether a read-only bind leaves what is mounted below its source writable, as it did before 1.44."""
    return version < (1, 44)


def container(version: Version, shown: Object, mac: str = "") -> Object:
    """The answer of GET /containers/{id}/json. mac: what was asked for, which older clients see in Config"""
    if version < (1, 52):
        shown = _of_graph_drivers(shown)
        if mac:
            shown = {**shown, "Config": {**shown["Config"], "MacAddress": mac}}
    elif "ExposedPorts" in shown["Config"]:
        shown = {**shown, "Config": ports.with_protocols(shown["Config"])}
    if version < (1, 45) and (version >= _SHORT_ALIAS_AT_CREATE or shown["State"]["Status"] != "created"):
        shown = _with_short_aliases(shown)
    if version < (1, 48):
        shown.pop("ImageManifestDescriptor", None)
    return shown


def listed_container(version: Version, shown: Object) -> Object:
    """A container of GET /containers/json, or some of its fields; what a version does not know is left out."""
    if version < (1, 52):
        shown.pop("Health", None)
    if version < (1, 48):
        shown.pop("ImageManifestDescriptor", None)
    if version < (1, 46):
        shown.get("HostConfig", {}).pop("Annotations", None)
    return shown


def _of_graph_drivers(shown: Object) -> Object:
    """A container in the form of 1.51 and before."""
    settings = shown["NetworkSettings"]
    endpoint = settings["Networks"].get("bridge") or {}
    address = {key: endpoint.get(key) or empty for key, empty in _ADDRESS.items()}
    older = {key: value for key, value in shown.items() if key != "Storage"}
    older.setdefault("GraphDriver", {"Name": shown["Driver"], "Data": None})
    older["NetworkSettings"] = {**settings, **_NEVER_FILLED, **address}
    return older


def _with_short_aliases(shown: Object) -> Object:
    """A container in the form of 1.44 and before: in user-defined networks its short id was one of its aliases."""
    settings = shown["NetworkSettings"]
    networks = {
        name: endpoint if name in record.BUILTIN else _with_short_alias(shown, endpoint)
        for name, endpoint in settings["Networks"].items()
    }
    return {**shown, "NetworkSettings": {**settings, "Networks": networks}}


def _with_short_alias(shown: Object, endpoint: Object) -> Object:
    names = (*(endpoint["Aliases"] or ()), shown["Id"][:_SHORT], shown["Config"]["Hostname"])
    return {**endpoint, "Aliases": list(dict.fromkeys(name for name in names if name))}


def image(version: Version, shown: Object, driver: str = "") -> Object:
    """An image of a list or of an inspect, in the form of this version. driver: of the storage, for an inspect"""
    older = dict(shown)
    if version < (1, 53):
        older.pop("Identity", None)
    if version < (1, 48):
        older.pop("Descriptor", None)
    if version < (1, 44):
        older["VirtualSize"] = shown["Size"]
    return _listed(version, older) if "Containers" in shown else _inspected(version, older, driver)


def _listed(version: Version, shown: Object) -> Object:
    if version < (1, 51):
        shown["Containers"] = -1
    if version < (1, 43) and not shown["RepoTags"] and not shown["RepoDigests"]:
        shown["RepoTags"], shown["RepoDigests"] = ["<none>:<none>"], ["<none>@<none>"]
    return shown


def _inspected(version: Version, shown: Object, driver: str) -> Object:
    """An image of an inspect. Until 1.51 empty fields were shown too, and until 1.44 the configuration of the container
    from which a build step made it.

    compose 1.29 reads that container's volumes whenever it makes a container anew; they are those of the image.
    """
    if version < (1, 52):
        shown = {"Parent": "", "Comment": "", "DockerVersion": "", "Author": "", **shown}
    if version < (1, 52) or driver in GRAPH_DRIVERS:
        shown["GraphDriver"] = {"Name": driver, "Data": None}
    if version < (1, 45):
        shown = {**shown, "Container": "", "ContainerConfig": {**_NO_CONTAINER, **(shown.get("Config") or {})}}
    if version < (1, 44):
        shown.setdefault("Created", "0001-01-01T00:00:00Z")
    return shown


def created_network(version: Version, body: Object) -> Object:
    """The body of POST /networks/create; before 1.48 a client could not say whether the network has IPv4."""
    if version < (1, 48):
        return {key: value for key, value in body.items() if key != "EnableIPv4"}
    return body


def network(version: Version, shown: Object) -> Object:
    """A network of an inspect; before 1.52 an answer told nothing of its addresses in use."""
    return shown if version >= (1, 52) else {key: value for key, value in shown.items() if key != "Status"}


def listed_network(version: Version, shown: Object) -> Object:
    """A network of a list. Its containers were shown until 1.27; from 1.28 to 1.51 their field was there, but empty."""
    listed = {key: value for key, value in shown.items() if key != "Status"}
    if version >= (1, 52):
        del listed["Containers"]
    elif version >= (1, 28):
        listed["Containers"] = {}
    return listed


def info(version: Version, shown: Object) -> Object:
    """The answer of GET /info in the form of this version.

    Older versions showed each commit with the expected one, had some more keys, and lacked others.
    """
    if version < (1, 50):
        shown.pop("DiscoveredDevices", None)
        shown |= {"BridgeNfIptables": False, "BridgeNfIp6tables": False}
    if version < (1, 49):
        del shown["FirewallBackend"]
        for key in ("ContainerdCommit", "RuncCommit", "InitCommit"):
            shown[key] = {**shown[key], "Expected": shown[key]["ID"]}
    if version < (1, 47):
        older = {"AllowNondistributableArtifactsCIDRs": None, "AllowNondistributableArtifactsHostnames": None}
        shown["RegistryConfig"] = {**older, **shown["RegistryConfig"]}
    if version < (1, 46):
        del shown["Containerd"]
    return shown


def event_types(version: Version) -> tuple[str, ...]:
    """The content types of GET /events, the default one first."""
    usual = "application/jsonl" if version >= (1, 53) else "application/json"
    return usual, "application/x-ndjson", "application/json-seq"


def knows_event(version: Version, kind: str, action: str) -> bool:
    """Whether a client of this version knows such events: `create` of an image is not told before 1.46."""
    return version >= (1, 46) or kind != "image" or action != "create"


def event_form(version: Version) -> str:
    """The name of the form that `event` gives to events: two versions with the same form show events alike."""
    return "plain" if version >= (1, 52) else "doubled"


def event(version: Version, shown: Object) -> Object:
    """An event; until 1.51 those of containers and images had their oldest fields beside the newer ones."""
    if version >= (1, 52) or shown["Type"] not in ("container", "image"):
        return shown
    actor = shown["Actor"]
    older = {"status": shown["Action"], "id": actor["ID"]}
    if shown["Type"] == "container" and actor["Attributes"].get("image"):
        older["from"] = actor["Attributes"]["image"]
    return {**older, **shown}
