"""Checks which kernel parameters (sysctls) a container may set, and sets them.

`check` is pure; `apply` runs in init, in the new namespaces, through the host's /proc, which shows the caller's own
namespaces. It never sets a parameter that the whole host shares.
"""

import contextlib
from collections.abc import Callable, Iterable

from engine.errors import Invalid, SystemFailure
from engine.kernel import reasons, userns

DEFAULT: tuple[tuple[str, str], ...] = (
    ("net.ipv4.ip_unprivileged_port_start", "0"),
    ("net.ipv4.ping_group_range", f"0 {min(userns.ids() - 1, 2**31 - 1)}"),  # no more than there are here
)
"""Docker's defaults for a container with a network namespace of its own."""

_OF_IPC = frozenset(
    f"kernel.{name}" for name in ("msgmax", "msgmnb", "msgmni", "sem", "shmall", "shmmax", "shmmni", "shm_rmid_forced")
)

_PATHS_OF_IPC = ("/proc/sys/fs/mqueue/", *(f"/proc/sys/{name.replace('.', '/')}" for name in _OF_IPC))
_EXCHANGED = {ord("."): "/", ord("/"): "."}


def check(name: str, namespaces: Iterable[str]) -> str:
    """The path below /proc/sys; Invalid, in runc's words, where the parameter is not the container's own.

    namespaces: those that the container does not share with the host. A name has dots or slashes between its parts,
        whichever comes first, and may have the other character inside a part (`net.ipv4.conf.eth0/1.forwarding`)
    """
    path = name if name.find("/") >= 0 and not -1 < name.find(".") < name.find("/") else name.translate(_EXCHANGED)
    parts = path.split("/")
    if "\0" in name or not all(part.strip(".") for part in parts):
        raise Invalid(f'sysctl "{name}" is not in a separate kernel namespace')
    dotted = ".".join(parts)
    if dotted in _OF_IPC or parts[:2] == ["fs", "mqueue"]:
        if "ipc" not in namespaces:
            raise Invalid(f'sysctl "{name}" is not allowed in the hosts ipc namespace')
    elif parts[0] == "net":
        if "net" not in namespaces:
            raise Invalid(f'sysctl "{name}" not allowed in host network namespace')
    elif dotted == "kernel.hostname" and "uts" in namespaces:
        raise Invalid(f'sysctl "{name}" is not allowed as it conflicts with the OCI "hostname" field')
    elif dotted != "kernel.domainname" or "uts" not in namespaces:
        raise Invalid(f'sysctl "{name}" is not in a separate kernel namespace')
    return path


def apply(
    values: Iterable[tuple[str, str]],
    namespaces: Iterable[str],
    as_owner: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
) -> None:
    """Set each parameter. Raises Invalid as `check` does, SystemFailure with the kernel's reason.

    as_owner: makes this process the owner of its IPC namespace, whose parameters the kernel lets nobody else change
    """
    for name, value in values:
        path = f"/proc/sys/{check(name, namespaces)}"
        of_ipc = path.startswith(_PATHS_OF_IPC)
        try:
            with as_owner() if of_ipc else contextlib.nullcontext(), open(path, "wb", buffering=0) as file:
                file.write(value.encode())
        except OSError as error:
            raise SystemFailure(f"open {path}: {reasons.of(error)}") from error
