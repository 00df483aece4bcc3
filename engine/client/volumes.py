"""The verbs `engine volume ...`: create, ls, rm.

Runs in the client's one thread.
"""

from collections.abc import Sequence

from engine.client.api import Api, noun_path
from engine.client.container.each import for_each
from engine.client.display import size
from engine.client.filtering import FILTER, query_of
from engine.client.showing.listings import FORMAT, Listing, Row, labelled, show
from engine.client.transport import Object
from engine.client.valuechecks import mapped, pair
from engine.commandline import Given, Option, given_text, given_texts
from engine.errors import Invalid

CREATE_OPTIONS = (
    Option("driver", "Specify volume driver name", short="d", default="local"),
    Option("label", "Set metadata for a volume", kind="list", default=(), value="list", check=pair),
    Option("name", "Specify volume name, by its former option"),
    Option("opt", "Set driver specific options", short="o", kind="list", default=(), value="map"),
)
LS_OPTIONS = (
    FILTER,
    FORMAT,
    Option("quiet", "Only display volume names", short="q", kind="flag", default=False),
)
RM_OPTIONS = (Option("force", "Force the removal of one or more volumes", short="f", kind="flag", default=False),)
LISTING = Listing(
    {
        "Driver": "DRIVER",
        "Name": "VOLUME NAME",
        "Scope": "SCOPE",
        "Mountpoint": "MOUNTPOINT",
        "Labels": "LABELS",
        "Links": "LINKS",
        "Size": "SIZE",
        "Availability": "AVAILABILITY",
        "Group": "GROUP",
        "Status": "STATUS",
    },
    ("Driver", "Name"),
)
_UNKNOWN = "N/A"


def create_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine volume create [VOLUME]`: print its name. Raises Invalid, ApiError."""
    if others and "name" in given:
        raise Invalid("conflicting options: cannot specify a volume-name through both --name and as a positional arg")
    body = {
        "Name": others[0] if others else given_text(given, "name"),
        "Driver": given_text(given, "driver", "local"),
        "DriverOpts": mapped(given_texts(given, "opt")),
        "Labels": mapped(given_texts(given, "label")),
    }
    print(api.call("POST", "/volumes/create", None, body)["Name"])
    return 0


def ls_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine volume ls`. Raises Invalid, ApiError."""
    found = api.call("GET", "/volumes", {"filters": query_of(given_texts(given, "filter"))})["Volumes"] or ()
    form = given_text(given, "format") or ("{{.Name}}" if given.get("quiet") else "")
    show(LISTING, [volume_row(each) for each in sorted(found, key=lambda each: str(each["Name"]))], form)
    return 0


def volume_row(volume: Object) -> Row:
    """The fields of one volume of GET /volumes, or of GET /system/df, which has UsageData."""
    usage = volume.get("UsageData") or {}
    row = {
        "Driver": volume["Driver"],
        "Name": volume["Name"],
        "Scope": volume["Scope"],
        "Mountpoint": volume["Mountpoint"],
        "Links": str(usage["RefCount"]) if usage else _UNKNOWN,
        "Size": size(usage["Size"]) if usage else _UNKNOWN,
        **dict.fromkeys(("Availability", "Group", "Status"), _UNKNOWN),  # of a swarm's volumes
    }
    return {**row, **labelled(volume.get("Labels"))}


def rm_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine volume rm VOLUME...`."""
    query = {"force": bool(given.get("force"))}
    return for_each(others, lambda name: api.call("DELETE", noun_path("volumes", name), query))


FUNCTIONS = {
    "volume create": (create_verb, CREATE_OPTIONS),
    "volume ls": (ls_verb, LS_OPTIONS),
    "volume rm": (rm_verb, RM_OPTIONS),
}
