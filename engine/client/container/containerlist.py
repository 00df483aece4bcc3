"""The verb `engine ps`: shows a table of the containers.

Runs in the client's one thread.
"""

import time
from collections.abc import Callable, Sequence

from engine.client.api import Api
from engine.client.container.portlist import shown_ports
from engine.client.display import age, moment, short_id, shortened, size
from engine.client.filtering import FILTER, query_of
from engine.client.showing.listings import FORMAT, Listing, Row, labelled, show
from engine.client.showing.rows import Named
from engine.client.transport import Object
from engine.client.valuechecks import number
from engine.commandline import Given, Option, given_text, given_texts
from engine.literals import integer

OPTIONS = (
    Option("all", "Show all containers (default shows just running)", short="a", kind="flag", default=False),
    FILTER,
    FORMAT,
    Option("last", "Show n last created containers (includes all states)", short="n", value="int", check=number),
    Option("latest", "Show the latest created container (includes all states)", short="l", kind="flag", default=False),
    Option("no-trunc", "Don't truncate output", kind="flag", default=False),
    Option("quiet", "Only display container IDs", short="q", kind="flag", default=False),
    Option("size", "Display total file sizes", short="s", kind="flag", default=False),
)
LISTING = Listing(
    {
        "ID": "CONTAINER ID",
        "Image": "IMAGE",
        "Command": "COMMAND",
        "CreatedAt": "CREATED AT",
        "RunningFor": "CREATED",
        "Status": "STATUS",
        "State": "STATE",
        "Ports": "PORTS",
        "Names": "NAMES",
        "Labels": "LABELS",
        "Mounts": "MOUNTS",
        "LocalVolumes": "LOCAL VOLUMES",
        "Networks": "NETWORKS",
        "Size": "SIZE",
        "Platform": "PLATFORM",
    },
    ("ID", "Image", "Command", "RunningFor", "Status", "Ports", "Names"),
)
_COMMAND_WIDTH = 20
_MOUNT_WIDTH = 15


def ps_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine ps`. Raises Invalid, ApiError."""
    form = given_text(given, "format")
    last = 1 if given.get("latest") else integer(given_text(given, "last", "-1"))
    sized = bool(given.get("size")) or ".Size" in form
    query = {
        "all": bool(given.get("all")),
        "limit": last if last > 0 else None,
        "size": sized,
        "filters": query_of(given_texts(given, "filter")),
    }
    full, now = bool(given.get("no-trunc")), time.time()
    rows = [container_row(container, full, now) for container in api.call("GET", "/containers/json", query)]
    if given.get("quiet") and not form:
        form = "{{.ID}}"
    show(LISTING, rows, form, (*LISTING.shown, "Size") if given.get("size") else ())
    return 0


def container_row(container: Object, full: bool, now: float) -> Row:
    """The fields of one container of GET /containers/json."""
    command = container["Command"]
    mounts = [mount.get("Name") or mount.get("Source", "") for mount in container.get("Mounts") or ()]
    networks = (container.get("NetworkSettings") or {}).get("Networks") or {}
    written, whole = container.get("SizeRw", 0), container.get("SizeRootFs", 0)
    names = [name.lstrip("/") for name in container.get("Names") or ()]
    row: dict[str, str | Named | Callable[[str], str]] = {
        "ID": container["Id"] if full else short_id(container["Id"]),
        "Image": _image(container, full),
        "Command": f'"{command if full else shortened(command, _COMMAND_WIDTH)}"',
        "CreatedAt": moment(container["Created"]),
        "RunningFor": f"{age(now - container['Created'])} ago",
        "Status": container["Status"],
        "State": container["State"],
        "Ports": shown_ports(container.get("Ports") or ()),
        # A name with a slash is that of a legacy link.
        "Names": ",".join(names if full else [name for name in names if "/" not in name]),
        "Mounts": ",".join(mount if full else shortened(mount, _MOUNT_WIDTH) for mount in mounts),
        "LocalVolumes": str(sum(mount.get("Driver") == "local" for mount in container.get("Mounts") or ())),
        "Networks": ",".join(sorted(networks)),
        "Size": f"{size(written)} (virtual {size(whole)})" if whole else size(written),
    }
    platform = (container.get("ImageManifestDescriptor") or {}).get("platform") or {}  # older daemons tell none
    parts = (platform.get(part, "") for part in ("os", "architecture", "variant"))
    row["Platform"] = Named(platform, "/".join(filter(None, parts)))
    return row | labelled(container.get("Labels"))


def _image(container: Object, full: bool) -> str:
    """The image's name, or where it has lost that, its id."""
    name: str = container["Image"] or "<no image>"
    return name if full or not name.startswith("sha256:") else short_id(name)


FUNCTIONS = {"ps": (ps_verb, OPTIONS)}
