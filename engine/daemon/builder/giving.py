"""Mounts of the types secret and ssh: what the client gives to a step, in a file or a socket of the exec root.

Runs on a thread that builds. The exec root is memory on most hosts, and other users cannot pass its directory
`given`. What is in it is removed with the step; what a killed daemon left goes at the next start. Neither is part of
what decides a step's outcome, nor of its layer.
"""

import contextlib
import os
from collections.abc import Iterator

from engine.daemon.builder.graph.work import Giver
from engine.daemon.containers import paths
from engine.daemon.tar.space import NoSpace, check_space
from engine.errors import Invalid

_MOST_MODE, _MOST_ID = 0o7777, (1 << 32) - 2


def variable(name: str, id: str, data: bytes) -> str:
    """The secret as a variable of the step, which stands in no record. Raises Invalid for one that cannot be."""
    if b"\0" in data or not name or "=" in name or "\0" in name:
        raise Invalid(f"secret {id} cannot be the variable {name}: a variable has no NUL byte, and its name no =")
    return f"{name}={data.decode('utf-8', 'surrogateescape')}"


@contextlib.contextmanager
def secret(exec_root: str, id: str, data: bytes, uid: int, gid: int, mode: int) -> Iterator[str]:
    """The path of a file with the secret, which is removed with the context. Raises Invalid, NoSpace."""
    path = _fresh(exec_root)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "wb") as file:
            _check_room(fd)
            file.write(data)
        _own(path, id, uid, gid, mode)
        yield path
    finally:
        os.unlink(path)


@contextlib.contextmanager
def agent(giver: Giver, exec_root: str, id: str, uid: int, gid: int, mode: int) -> Iterator[str | None]:
    """The path of a socket that leads to the client's agent; None where the client has none. Raises Invalid."""
    path = _fresh(exec_root)
    with giver.agent(id, path) as there:
        if not there:
            yield None
            return
        _own(path, id, uid, gid, mode)
        yield path


def _check_room(fd: int) -> None:
    """Raise NoSpace where the exec root is nearly full: a step may name a secret thousands of times."""
    try:
        check_space(fd)
    except NoSpace as error:
        raise NoSpace("no space left on device: less than 2 % of the exec root's file system is free") from error


def _fresh(exec_root: str) -> str:
    return os.path.join(paths.given(exec_root), os.urandom(8).hex())


def _own(path: str, id: str, uid: int, gid: int, mode: int) -> None:
    if mode > _MOST_MODE or max(uid, gid) > _MOST_ID:
        raise Invalid(f"invalid mode or owner of what is mounted from {id}")
    os.chown(path, uid, gid)
    os.chmod(path, mode)


def sweep(exec_root: str, names: list[str]) -> None:
    """Remove what a killed daemon left: files of these names."""
    for name in names:
        os.unlink(os.path.join(paths.given(exec_root), name))
