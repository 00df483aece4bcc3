"""The options of the local driver: `type`, `device`, `o` (as of mount(8)) and `size`.

Pure but for looking up the host of an NFS server; runs in the daemon's request threads. It mounts nothing: what comes
out is what init is to mount inside the container.
"""

from dataclasses import dataclass

from engine.errors import Invalid, SystemFailure
from engine.sandbox.mounts import FLAGS

_NEEDS = {"device": ("type",), "type": ("device",), "o": ("device", "type")}
_KNOWN = frozenset({*_NEEDS, "size"})
# Words of mount(8) that take an MS_* flag away, and those that say nothing to the kernel.
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
_NO_SIZES = frozenset({"", "0"})


@dataclass(frozen=True, slots=True)
class Mounting:
    """What is mounted where a volume is used: a kind (`bind`: another directory of the host), as in `spec.Mount`."""

    kind: str
    device: str
    flags: tuple[str, ...]
    data: str


def check(options: dict[str, str] | None) -> None:
    """Raise Invalid, in dockerd's words, for options that the local driver does not know or that lack others."""
    options = options or {}
    for name in sorted(options):
        if name not in _KNOWN:
            raise Invalid(f'invalid option: "{name}"')
    for name, needed in _NEEDS.items():
        for other in needed if name in options else ():
            if other not in options:
                raise Invalid(f'missing required option: "{other}"')
    if options.get("size", "") not in _NO_SIZES:
        raise Invalid("quota size requested but no quota support")


def mounting(options: dict[str, str] | None) -> Mounting | None:
    """What these options mount; None for a volume that is a plain directory. Raises SystemFailure for unknown hosts."""
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
    """`addr=NAME` with the address of that name: the kernel knows no names."""
    name, _, host = word.partition("=")
    if name != "addr" or not host:
        return word
    import socket  # only for volumes of the network

    try:
        found = socket.getaddrinfo(host, None)
    except OSError as error:
        raise SystemFailure(
            f"error resolving passed in network volume address: lookup {host}: {error.strerror}"
        ) from error
    except ValueError as error:  # no host can be called so: a zero byte, or what IDNA does not take
        text = f"error resolving passed in network volume address: lookup {host}: no such host"
        raise SystemFailure(text) from error
    return f"addr={found[0][4][0]}"
