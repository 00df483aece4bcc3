"""The differences from the transcript that are meant, each with its reason; a row that no answer needs is an error."""

from typing import NamedTuple


class Meant(NamedTuple):
    """One meant difference.

    calls: the numbers of the calls; what, where: patterns for a `compare.Departure`
    """

    calls: frozenset[int]
    what: str
    where: str
    reason: str


def meant(calls: tuple[int, ...], what: str, where: str, reason: str) -> Meant:
    """A row of the table."""
    return Meant(frozenset(calls), what, where, reason)


OWN_DEFAULTS = {
    "HostConfig.LogConfig": "capped at five files of 20 MB, where the recording's log grew without bound",
    "HostConfig.CgroupnsMode": "a cgroup namespace of its own on version 1 too, where the recording's host had none",
}

NO_SERVER = "Go's resolver names the server that it asked, the C library's does not"
NOTHING_LEFT = "of what other tests had left on the recording's host, and a figure of 0 is not shown"

# Events of containers that only one side tells.
EVENTS = {
    "export": "the recording's client left in the middle of the archive",
    "kill": "the recording slept where the replay does not, and found the container ended",
}
# Events of other things that this engine alone tells.
OTHER_EVENTS = {
    ("image", "load"): "the replay begins with the load of the image that the recording's host had",
    (
        "image",
        "prune",
    ): "told as of every other kind; the definition lists it, this dockerd's store of images forgot it",
}

INSPECTED = (84, 88, 94, 98, 102, 106, 110, 112, 113, 134, 162, 174, 200, 203, 265)

DIFFERENCES = (
    meant(INSPECTED, "extra", r"HostConfig\.LogConfig\.Config\.max-(size|file)", OWN_DEFAULTS["HostConfig.LogConfig"]),
    meant((142,), "text", "", "the last line of both is stdout's in the recording, and stderr's in the replay"),
    meant((4, 5), "text", "|message", "the recording's daemon speaks 1.40 to 1.56, this engine 1.24 to 1.54"),
    meant((3, 10), "missing", r"Components\[\]\.Details\.\w+", "docker's component is the second one"),
    meant((3, 10), "extra", r"Components\[\]\.Details\.PythonVersion", "the engine's own component, before docker's"),
    meant((11,), "missing", r"Runtimes\.runc\.status", "the features of a runc binary, and there is none"),
    meant((11,), "type", "Containerd", "there is no containerd whose address could be told"),
    meant((74,), "text", "message", "runc tells the number of a descriptor of its own"),
    meant((238,), "type", "ImagesDeleted", "the recording's host had images of other tests that no name pointed at"),
    meant((239, 240, 241, 244), "text", "", NO_SERVER),
    meant((229,), "text", "message", NO_SERVER),
    meant((210,), "missing", "Identity", "the recording's image was pulled, and that of the replay is loaded"),
    meant((273,), "type", "NetworksDeleted", "the recording's host had a network of a swarm that it had been in"),
    meant((275, 288), "type", r"Volume.*\[\]\.Labels", "the recording's host had volumes of other tests, with labels"),
    meant((288,), "missing", r"VolumeUsage\.(Reclaimable|TotalSize)", NOTHING_LEFT),
    meant((288,), "missing", r"BuildCacheUsage\.(Items|TotalCount|TotalSize)", NOTHING_LEFT),
    meant((288,), "missing", r"ImageUsage\.Reclaimable", NOTHING_LEFT),
    meant((308,), "text", "", "other ids, times and networks; the events of containers are compared one by one"),
)
