"""What differs from dockerd on purpose, each with its reason: at most 40 rows, and none that no answer needs."""

import re
from typing import NamedTuple

from tests.replay.compare import Departure

MOST = 40


class Meant(NamedTuple):
    """One meant difference; operation, what, where, how: patterns for a whole call and its `Departure`."""

    operation: str
    what: str
    where: str
    how: str
    reason: str

    def covers(self, operation: str, found: Departure) -> bool:
        """Whether this row means a departure."""
        pairs = ((self.operation, operation), (self.what, found.what), (self.where, found.where), (self.how, found.how))
        return all(re.fullmatch(pattern, text, re.DOTALL) for pattern, text in pairs)


ANY = ".*"
CONTAINER = r"GET /containers/(NAME-.|json)(/json)?"


def seen(section: str, line: str, reason: str) -> Meant:
    """A line that one of two containers alone sees in a section."""
    return Meant("start", "theirs|ours", section, line, reason)


DIFFERENCES: tuple[Meant, ...] = (
    # What a container sees.
    seen("files", r"#.*", "dockerd notes in resolv.conf where each line came from, and no program reads it"),
    seen("mounts", r"/\S* /\S* r[ow],.* - overlay overlay .*", "an overlay's working directory is not shown here"),
    seen("mounts", r"/\S* /image .*", "a part of an image is shown as it is, since nothing can be written to it"),
    seen("mounts", r"/ /sys/fs/cgroup r[ow],.* - tmpfs .*", "the directory of the hierarchies is small, and read-only"),
    seen("mounts", r"\S+ /sys/fs/cgroup/systemd .*", "the name of a hierarchy's mount is its kind, as of all others"),
    seen(
        "mounts", r"\S+ /sys/fs/cgroup/unified .* - cgroup2 .*", "version 2 is shown beside version 1, as on the host"
    ),
    seen("cgroup", r"unified", "version 2 is shown beside version 1, as on the host"),
    seen(
        "mounts",
        r"/ /(proc/acpi|proc/scsi|sys/firmware) ro,.*",
        "what hides a directory of the kernel's is stricter here",
    ),
    seen("mounts", r"/ /fields ro,.* - tmpfs tmpfs r[ow].*", "a read-only tmpfs is read-only as a file system too"),
    seen("addresses|routes", r".*\b(docker0|br-\S+)\b.*", "a bridge without IPv6 has no address of IPv6 here"),
    seen("links", r"\S+ 1500 0x1003 (0|1000)", "links have the kernel's queue, so that a discipline put on one works"),
    # What a daemon of containerd and runc has.
    Meant(
        CONTAINER,
        "value",
        r"Mounts\[\]\.Source",
        r"'/ROOT/rootfs/.*, ours ''",
        "an image that is mounted has no place on the host",
    ),
    Meant(
        r"GET /containers/NAME-./stats", "status", "", r".*no metrics received.*", "containerd may have no figures yet"
    ),
    Meant(
        "GET /info", "type|missing", r"Containerd|Runtimes\..*", ANY, "there is no containerd, and no runc to be asked"
    ),
    Meant(
        "GET /version", "missing|extra", r"Components.*", ANY, "the parts are other programs, written in Python and C"
    ),
    Meant(
        f"{CONTAINER}|GET /images.*|GET /system/df",
        *("missing|value", r".*(annotations|mediaType).*", ANY),
        "an archive without manifests gets manifests of the OCI's form, without containerd's notes",
    ),
    Meant(
        *(f"{CONTAINER}|GET /system/df", "value"),
        *(r".*\.Networks\.[^.]*\.(\w*Gateway|\w*IP\w*Address|\w*IP\w*PrefixLen|EndpointID)", r".*, ours '0?'"),
        "what a client says that a network has given is not shown until the network gives it",
    ),
    Meant(
        *(CONTAINER, "type|length|value", r".*\.DNSNames(\[\])?", ANY),
        "a container has its names of now, in networks that have names",
    ),
    Meant(
        *("(HEAD|GET|PUT) /containers/NAME-./archive", "status", "", r"404, ours [24]00: .*"),
        "what is mounted in a running container, its devices too, is there to be copied",
    ),
    Meant(
        *("GET /system/df", "missing", r"ContainerUsage\.(Reclaimable|TotalSize)", r"\d+"),
        "a directory in which a container has written is counted once, and the engine's own not at all",
    ),
    # What is refused or said sooner.
    Meant(
        *("POST /(containers|networks)/.*", "status", "", r"\d+, ours 400: .*name of a network interface.*"),
        "an interface's name that cannot be is refused before the start",
    ),
    Meant(
        *(
            ANY,
            "status",
            "",
            r"500, ours 4..: .*(looking up for \w+ |format for links|invalid signal|Cannot restart).*",
        ),
        "a wrong value is no failure of the daemon",
    ),
    Meant(
        *("POST /containers/NAME-./update", "status", "", r"(200|404), ours 400: .*Range of blkio weight.*"),
        "a weight is kept where the host's scheduler is BFQ",
    ),
    Meant(
        *("start", "answers", "", r".*cannot program address.*, ours .*cannot be connected to any other network.*"),
        "nothing is plugged into the host's namespace, with a route in the way or without",
    ),
    Meant(
        *("POST /containers/create|start", "length|answers", ANY, r".*--storage-opt is only shown.*"),
        "a limit that nobody keeps is said to be none",
    ),
    Meant(
        *("POST /images/create", "status", "", r"500, ours 400: .*"),
        "an archive that cannot be read is the client's error",
    ),
    # Failures of the network carry the words of who has failed.
    Meant(
        *("POST /(images/.*|build)", "length|value", ANY, r".*(dial tcp|lookup).*"),
        "the C library's resolver does not name the server that it asked",
    ),
)
