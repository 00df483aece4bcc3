"""RUN --mount of type secret and ssh: what the client gives to a step, in a file or a socket of the exec root.

Runs on the thread that builds. The exec root is memory on most hosts, and other users cannot pass its directory
`given`. What is in it is removed with the step; what a killed daemon left goes at the next start. Neither is part of
what decides a step's outcome, nor of its layer.
"""

import contextlib
import os
from collections.abc import Iterator

from engine.daemon.build.graph.work import Giver
from engine.daemon.containers import paths
from engine.daemon.dockerfile import commands
from engine.daemon.jsontext import Object
from engine.errors import Invalid, NotBuilt

_SECRETS, _AGENT = "/run/secrets", "/run/buildkit/ssh_agent.0"
_MOST_MODE, _MOST_ID = 0o7777, (1 << 32) - 2
_SECRET_MODE, _AGENT_MODE = 0o400, 0o600
SOCKET = "SSH_AUTH_SOCK"
"""The variable in which programs look for their agent."""


def name_of(mount: commands.Mount) -> str:
    """The client's name of what is given."""
    own = mount.id or (os.path.basename(mount.source or mount.target) if mount.type == "secret" else "")
    return own or "default"


def target_of(mount: commands.Mount) -> str:
    """Where the step finds it."""
    if mount.type == "ssh":
        return mount.target or _AGENT
    return mount.target or f"{_SECRETS}/{name_of(mount)}"


@contextlib.contextmanager
def secret(giver: Giver, exec_root: str, mount: commands.Mount, target: str) -> Iterator[Object | None]:
    """The mount of a secret's file; None for one that is not required and not there. Raises Invalid."""
    if mount.env is not None:
        raise NotBuilt("a secret in a variable (--mount=type=secret,env=) is not built in this engine")
    data = giver.secret(name_of(mount))
    if data is None:
        if mount.required:
            raise Invalid(f"secret {name_of(mount)}: not found")
        yield None
        return
    path = _fresh(exec_root)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(data)
        _own(path, mount, _SECRET_MODE)
        yield {"Type": "bind", "Source": path, "Target": target, "ReadOnly": True}
    finally:
        os.unlink(path)


@contextlib.contextmanager
def agent(giver: Giver, exec_root: str, mount: commands.Mount, target: str) -> Iterator[Object | None]:
    """The mount of an agent's socket; None for one that is not required and not there. Raises Invalid."""
    path = _fresh(exec_root)
    with giver.agent(name_of(mount), path) as there:
        if not there:
            if mount.required:
                raise Invalid(f"unset ssh forward key {name_of(mount)}")
            yield None
            return
        _own(path, mount, _AGENT_MODE)
        yield {"Type": "bind", "Source": path, "Target": target}


def _fresh(exec_root: str) -> str:
    return os.path.join(paths.given(exec_root), os.urandom(8).hex())


def _own(path: str, mount: commands.Mount, mode: int) -> None:
    wanted = mode if mount.mode is None else mount.mode
    if wanted > _MOST_MODE or max(mount.uid or 0, mount.gid or 0) > _MOST_ID:
        raise Invalid(f"invalid mode or owner of what is mounted from {name_of(mount)}")
    os.chown(path, mount.uid or 0, mount.gid or 0)
    os.chmod(path, wanted)


def sweep(exec_root: str, names: list[str]) -> None:
    """Remove what a killed daemon left: files of these names."""
    for name in names:
        os.unlink(os.path.join(paths.given(exec_root), name))
