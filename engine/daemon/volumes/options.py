"""Checking and translating the local driver's options (`type`, `device`, `o`, `size`) into what is to be mounted.

`o` has the form of mount(8). Runs in the daemon's request threads. It has no effects but that it looks up the host name
of an NFS server. It mounts nothing: init mounts the result inside the container.
"""

from engine.dataclass import dataclass
from engine.errors import Invalid, SystemFailure
from engine.literals import size
from engine.sandbox.mounts import FLAGS

_NEEDS = {"device": ("type",), "type": ("device",), "o": ("device", "type")}
_KNOWN = frozenset({*_NEEDS, "size"})
# Options of mount(8) that clear a flag → that flag. They are not passed on to the kernel.
_NEGATED = {
    "rw": "ro",
    "suid": "nosuid",
    "dev": "nodev",
    "exec": "noexec",
    "async": "sync",
    "atime": "noatime",
    "diratime": "nodiratime",
    "norelatime": "relatime",
    "nostrictatime": "strictatime",
}
_NETWORK_KINDS = frozenset({"nfs", "nfs4", "cifs"})


@dataclass(frozen=True, slots=True)
class Mounting:
    """What is mounted where a volume is used; the fields are as in `spec.Mount`.

    kind: the file system's type, or `bind` for another directory of the host
    """

    kind: str
    device: str
    flags: tuple[str, ...]
    data: str


def check(options: dict[str, str] | None) -> None:
    """Raise Invalid, in dockerd's words, for an unknown option, or one that needs another option which is missing."""
    options = options or {}
    for name in sorted(options):
        if name not in _KNOWN:
            raise Invalid(f'invalid option: "{name}"')
    if "size" in options and size(options["size"], thousand=1024):
        raise Invalid("quota size requested but no quota support")
    for name, needed in _NEEDS.items():
        for other in needed if name in options else ():
            if other not in options:
                raise Invalid(f'missing required option: "{other}"')


def mounting(options: dict[str, str] | None) -> Mounting | None:
    """What these options mount, None for a volume that is a plain directory.

    Raises SystemFailure when the host name of a file server cannot be resolved.
    """
    if not options or not (options.get("device") or options.get("type")):
        return None
    kind, device = options.get("type", ""), options.get("device", "")
    flags: dict[str, None] = {}
    data = []
    for word in (options.get("o") or "").split(","):
        if word in _NEGATED:
            flags.pop(_NEGATED[word], None)
        elif word in FLAGS:
            flags[word] = None
        elif word and word != "defaults":
            data.append(_resolved(word) if kind in _NETWORK_KINDS else word)
    if flags.keys() & {"bind", "rbind"}:
        kind = "bind"
    return Mounting(kind, device, tuple(flags), ",".join(data))


def _resolved(word: str) -> str:
    """`addr=NAME` with the address in the name's place, as the kernel resolves no names; any other option unchanged."""
    name, _, host = word.partition("=")
    if name != "addr" or not host:
        return word
    import socket  # imported late, as only volumes on a network need it

    try:
        found = socket.getaddrinfo(host, None)
    except OSError as error:
        raise SystemFailure(
            f"error resolving passed in network volume address: lookup {host}: {error.strerror}"
        ) from error
    except ValueError as error:  # no valid host name: it has a zero byte, or IDNA does not take it
        text = f"error resolving passed in network volume address: lookup {host}: no such host"
        raise SystemFailure(text) from error
    return f"addr={found[0][4][0]}"
