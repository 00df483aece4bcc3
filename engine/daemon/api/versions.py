"""The versions of the API that are spoken, who is told so, and where the older ones answer differently.

Pure; used by request threads. A handler answers as the newest version does; what an older client expects otherwise is
done to that answer in here.
"""

import re

from engine.daemon.api.answers import MULTIPLEXED_STREAM, RAW_STREAM
from engine.daemon.jsontext import Object
from engine.daemon.network.record import BUILTIN
from engine.errors import Invalid
from engine.settings.every import VERSION

Version = tuple[int, int]

NEWEST: Version = (1, 54)
OLDEST = (1, 24)
NEWEST_TEXT = "1.54"
OLDEST_TEXT = "1.24"
PLATFORM_SINCE = (1, 32)  # the first version of POST /images/create that can name a platform
BUILD_IDS_SINCE = (1, 30)  # the first version whose POST /build tells the ids of what it makes
PYTHON_SDK = "docker-sdk-python/"  # its User-Agent begins so
OLD_COMPOSE, OLD_COMPOSE_SPEAKS = "docker-compose/1.", "1.41"
ARCHIVE_PLATFORM_SINCE = (1, 48)  # the same for save and load, as JSON
ARCHIVE_PLATFORMS_SINCE = (1, 52)  # and several of them
PUSH_PLATFORM_SINCE = (1, 46)  # the same for POST /images/{name}/push, as JSON
INSPECT_PLATFORM_SINCE = (1, 49)  # the same for GET /images/{name}/json, which takes it as JSON
HISTORY_PLATFORM_SINCE = (1, 48)  # and for GET /images/{name}/history
REMOVE_PLATFORMS_SINCE = (1, 50)  # and for DELETE /images/{name}
SHARED_SIZE_SINCE, IDENTITY_SINCE = (1, 42), (1, 54)
LIST_MANIFESTS_SINCE, INSPECT_MANIFESTS_SINCE = (1, 47), (1, 48)

# Every answer carries these, so that a client learns from any of them whom it talks to and in which version.
IDENTITY = (
    f"Api-Version: {NEWEST_TEXT}\r\nDocker-Experimental: false\r\nOstype: linux\r\nServer: engine/{VERSION} (linux)\r\n"
)

# What NetworkSettings had beside Networks until 1.51: the address on the default network, and what was never filled in.
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

# What the configuration of a container has, when it asks for nothing.
_NO_CONTAINER = {
    **dict.fromkeys(("Hostname", "Domainname", "User", "Image", "WorkingDir"), ""),
    **dict.fromkeys(("AttachStdin", "AttachStdout", "AttachStderr", "Tty", "OpenStdin", "StdinOnce"), False),
    **dict.fromkeys(("Env", "Cmd", "Volumes", "Entrypoint", "OnBuild", "Labels")),
}

_OTHER_MAC = (
    "the container-wide MAC address must match the endpoint-specific MAC address for the main network, or be left empty"
)

_PREFIX = re.compile(r"/v([0-9]{1,5}\.[0-9]{1,5})(?=/)")


def split_version(path: str) -> tuple[str, str]:
    """A path's version text (empty for a bare path) and the rest of the path."""
    prefix = _PREFIX.match(path)
    return (prefix.group(1), path[prefix.end() :]) if prefix else ("", path)


def parse_version(text: str) -> Version:
    """A version's numbers; an empty text is the newest version."""
    if not text:
        return NEWEST
    major, _, minor = text.partition(".")
    return int(major), int(minor)


def newest_for(user_agent: str) -> str:
    """The newest version that a client is told of.

    docker-compose 1 speaks whatever is the newest, and stumbles over all that was left out since it was written.
    """
    return OLD_COMPOSE_SPEAKS if user_agent.startswith(OLD_COMPOSE) else NEWEST_TEXT


def check_version(text: str, version: Version) -> None:
    """Raises Invalid for a version that is not spoken, in docker's words."""
    if version > NEWEST:
        raise Invalid(f"client version {text} is too new. Maximum supported API version is {NEWEST_TEXT}")
    if version < OLDEST:
        raise Invalid(
            f"client version {text} is too old. Minimum supported API version is {OLDEST_TEXT}, "
            "please upgrade your client to a newer version"
        )


def plain_errors(version: Version) -> bool:
    """True where an error is plain text: before 1.24 it was not JSON yet, and whoever is told to upgrade is there."""
    return version < (1, 24)


def stream_type(version: Version, terminal: bool) -> str:
    """The content type of what a container says. Before 1.42 no answer told that there are frames in it."""
    return MULTIPLEXED_STREAM if version >= (1, 42) and not terminal else RAW_STREAM


def chooses_streams(version: Version) -> bool:
    """Whether who attaches over a WebSocket says which streams it wants; before 1.42 it got all."""
    return version >= (1, 42)


def has_text_frames(version: Version) -> bool:
    """Whether a container's output is text to a WebSocket: since 1.28 it is bytes."""
    return version < (1, 28)


def takes_console_size(version: Version) -> bool:
    """Whether an exec can be given the size of its terminal."""
    return version >= (1, 42)


def has_cluster_volumes(version: Version) -> bool:
    """Whether a volume can be asked for that only a swarm has."""
    return version >= (1, 42)


def prunes_named_volumes(version: Version) -> bool:
    """Whether a prune whose filters do not say so takes volumes that have a name too: since 1.42 it spares them."""
    return version < (1, 42)


def takes_service_status(version: Version) -> bool:
    """Whether a list of services can be asked for the state of each."""
    return version >= (1, 41)


def updated(version: Version, body: Object) -> Object:
    """What a client asks of a container that is there: before 1.40 none could change its limit of processes."""
    return body if version >= (1, 40) else {key: value for key, value in body.items() if key != "PidsLimit"}


def image_filters(version: Version, filters: dict[str, tuple[str, ...]], old: str) -> dict[str, tuple[str, ...]]:
    """The filters of GET /images/json; before 1.41 a pattern could also stand in the parameter `filter`."""
    if old and version < (1, 41):
        return {**filters, "reference": (*filters.get("reference", ()), old)}
    return filters


def created(version: Version, body: Object, cgroups: str) -> Object:
    """What a client asks of a new container, with the defaults of its time.

    cgroups: the version of the host's hierarchy, "1" or "2"
    """
    older: Object = {}
    if version < (1, 40):
        older["IpcMode"] = "shareable"
    if version < (1, 41) and cgroups == "1":
        older["CgroupnsMode"] = "host"
    if version < (1, 52):
        body = _with_old_networks(version, body)
    if not older:
        return body
    asked = body.get("HostConfig") or {}
    return {**body, "HostConfig": {**asked, **{key: asked.get(key) or value for key, value in older.items()}}}


def _with_old_networks(version: Version, body: Object) -> Object:
    """Before 1.44 a container was created in one network, and until 1.51 its MAC could stand beside its networks."""
    networking = body.get("NetworkingConfig") or {}
    endpoints = {**(networking.get("EndpointsConfig") or {})}
    if version < (1, 44):
        if len(endpoints) > 1:
            raise Invalid(f"Container cannot be connected to network endpoints: {', '.join(sorted(endpoints))}")
        endpoints = {name: settings and {**settings, "MacAddress": None} for name, settings in endpoints.items()}
    mac = body.get("MacAddress")
    if mac:
        mode = (body.get("HostConfig") or {}).get("NetworkMode") or "default"
        if mode in ("host", "none") or mode.startswith("container:"):
            raise Invalid("conflicting options: mac-address and the network mode")
        name = next(iter(endpoints)) if len(endpoints) == 1 else mode
        settings = endpoints.get(name) or {}
        if (settings.get("MacAddress") or mac) != mac:
            raise Invalid(_OTHER_MAC)
        endpoints[name] = {**settings, "MacAddress": mac}
    return {**body, "NetworkingConfig": {**networking, "EndpointsConfig": endpoints}} if endpoints else body


def container(version: Version, user_agent: str, shown: Object, log_asked: bool) -> Object:
    """A container of an inspect.

    The docker SDK for Python is told `json-file` where `local` is only the default: its `containers.run` reads the
    output only when the driver has one of the two names that it knows, and else returns nothing.
    log_asked: whether who created the container has named a driver
    """
    if version < (1, 52):
        shown = _of_graph_drivers(shown)
    if version < (1, 45):
        shown = _with_short_aliases(shown)
    if version < (1, 48):
        shown.pop("ImageManifestDescriptor", None)
    log_config = shown["HostConfig"]["LogConfig"]
    if log_asked or log_config["Type"] != "local" or not user_agent.startswith(PYTHON_SDK):
        return shown
    return {**shown, "HostConfig": {**shown["HostConfig"], "LogConfig": {**log_config, "Type": "json-file"}}}


def _of_graph_drivers(shown: Object) -> Object:
    """A container as it was shown until 1.51."""
    settings = shown["NetworkSettings"]
    endpoint = settings["Networks"].get("bridge") or {}
    address = {key: endpoint.get(key) or empty for key, empty in _ADDRESS.items()}
    older = {key: value for key, value in shown.items() if key != "Storage"}
    older["GraphDriver"] = {"Name": shown["Driver"], "Data": None}
    older["NetworkSettings"] = {**settings, **_NEVER_FILLED, **address}
    return older


def _with_short_aliases(shown: Object) -> Object:
    """A container as it was shown until 1.44: in its user-defined networks its short id was one of its aliases."""
    settings = shown["NetworkSettings"]
    networks = {
        name: endpoint if name in BUILTIN else _with_short_alias(shown, endpoint)
        for name, endpoint in settings["Networks"].items()
    }
    return {**shown, "NetworkSettings": {**settings, "Networks": networks}}


def _with_short_alias(shown: Object, endpoint: Object) -> Object:
    names = (*(endpoint["Aliases"] or ()), shown["Id"][:_SHORT], shown["Config"]["Hostname"])
    return {**endpoint, "Aliases": list(dict.fromkeys(name for name in names if name))}


def image(version: Version, shown: Object) -> Object:
    """An image of a list or an inspect, as it was shown then."""
    older = dict(shown)
    if version < (1, 53):
        older.pop("Identity", None)
    if version < (1, 48):
        older.pop("Descriptor", None)
    if version < (1, 44):
        older["VirtualSize"] = shown["Size"]
    return _listed(version, older) if "Containers" in shown else _inspected(version, older)


def _listed(version: Version, shown: Object) -> Object:
    if version < (1, 51):
        shown["Containers"] = -1
    if version < (1, 43) and not shown["RepoTags"] and not shown["RepoDigests"]:
        shown["RepoTags"], shown["RepoDigests"] = ["<none>:<none>"], ["<none>@<none>"]
    return shown


def _inspected(version: Version, shown: Object) -> Object:
    """Until 1.51 what is empty was shown too, and until 1.44 the container that a step of a build had made it from.

    compose 1.29 makes no container anew without the volumes of that container, which are those of the image.
    """
    if version < (1, 52):
        shown = {"Parent": "", "Comment": "", "DockerVersion": "", "Author": "", **shown}
        shown["GraphDriver"] = {"Name": "overlayfs", "Data": None}
    if version < (1, 45):
        shown = {**shown, "Container": "", "ContainerConfig": {**_NO_CONTAINER, **(shown.get("Config") or {})}}
    if version < (1, 44):
        shown.setdefault("Created", "0001-01-01T00:00:00Z")
    return shown


def created_network(version: Version, body: Object) -> Object:
    """What a client asks of a new network: before 1.48 none could say whether it has IPv4."""
    if version < (1, 48):
        return {key: value for key, value in body.items() if key != "EnableIPv4"}
    return body


def network(version: Version, shown: Object) -> Object:
    """A network of an inspect; before 1.52 nothing was told of its addresses."""
    return shown if version >= (1, 52) else {key: value for key, value in shown.items() if key != "Status"}


def listed_network(version: Version, shown: Object) -> Object:
    """A network of a list: its containers were told until 1.27, and their place was there, empty, until 1.51."""
    listed = {key: value for key, value in shown.items() if key != "Status"}
    if version >= (1, 52):
        del listed["Containers"]
    elif version >= (1, 28):
        listed["Containers"] = {}
    return listed


def info(version: Version, shown: Object) -> Object:
    """What GET /info tells: commits were shown with those expected, and some keys were not there yet, or still."""
    if version < (1, 50):
        for key, name in (("BridgeNfIptables", "iptables"), ("BridgeNfIp6tables", "ip6tables")):
            shown[key] = _bridged(name)
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


def _bridged(name: str) -> bool:
    """Whether the host's firewall sees what only crosses a bridge."""
    try:
        with open(f"/proc/sys/net/bridge/bridge-nf-call-{name}") as file:
            return file.read().strip() == "1"
    except FileNotFoundError:  # the kernel has no br_netfilter
        return False


def event_types(version: Version) -> tuple[str, ...]:
    """The content types of GET /events, the usual one first."""
    usual = "application/jsonl" if version >= (1, 53) else "application/json"
    return usual, "application/x-ndjson", "application/json-seq"


def knows_event(version: Version, kind: str, action: str) -> bool:
    """Whether a client has heard of such events: an image's `create` is not told before 1.46."""
    return version >= (1, 46) or kind != "image" or action != "create"


def event_form(version: Version) -> str:
    """The name of the form that `event` gives to events: two versions of the same form show them alike."""
    return "plain" if version >= (1, 52) else "doubled"


def event(version: Version, shown: Object) -> Object:
    """An event: containers' and images' had their oldest fields beside the newer ones until 1.51."""
    if version >= (1, 52) or shown["Type"] not in ("container", "image"):
        return shown
    actor = shown["Actor"]
    older = {"status": shown["Action"], "id": actor["ID"]}
    if shown["Type"] == "container" and actor["Attributes"].get("image"):
        older["from"] = actor["Attributes"]["image"]
    return {**older, **shown}
