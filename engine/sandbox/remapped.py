"""Gives a container a user namespace of its own, in which root is a user of the host without rights (userns-remap).

Runs in init and in an exec's joiner. Both keep the host's rights while they do the steps, and take the namespace as
the last of these rights is needed: so a device, a source of a mount or a limit needs nothing that the container has
not. A namespace of another kind belongs to the user namespace that its maker was in; so a helper makes those, in which
the container's root is to be root.

The files of the data root have the ids of the container's own view. Init sees them through idmapped mounts
(mount_setattr(2)), and for the time of its steps makes files as the container's root does. It never changes an owner.
"""

import contextlib
import errno
import os
import socket
from collections.abc import Callable, Iterator

from engine.dataclass import dataclass, replace
from engine.errors import Invalid, SystemFailure
from engine.kernel import idmaps, reasons, syscalls, userns
from engine.kernel.idmaps import Ids
from engine.literals import natural
from engine.sandbox import capabilities
from engine.sandbox.namespaces import NAMESPACES, OF_USER, flags
from engine.sandbox.spec import Mount, Sandbox

_PLACE = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_LAST_ID = 0xFFFFFFFE
_OVER_FILES = capabilities.mask(
    ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_FSETID", "CAP_MKNOD")
)
_GO, _FAILED = b"go", b"E"
_OWNED = frozenset({"tmpfs", "devpts"})


@dataclass(frozen=True, slots=True)
class Remapped:
    """A user namespace to be entered. users: its descriptor; ids: its maps"""

    users: int
    ids: Ids

    def enter(self, *, alone: bool = False) -> None:
        """Enter it, with all capabilities in it and none outside; uid and gid are those of nobody until they are set.

        What this process opens and makes from here on, the container's root could.

        alone: this process goes on in a mount namespace that belongs to the user namespace. In that copy no mount can
            be taken off what it covers. Raises OSError.
        """
        self.make_files()
        syscalls.setns(self.users, syscalls.CLONE_NEWUSER)
        os.close(self.users)
        if alone:
            syscalls.unshare(syscalls.CLONE_NEWNS)

    def make_files(self) -> None:
        """Make files as the container's root from here on, with the host's rights over all that there are."""
        os.setgroups(())
        syscalls.set_fs_owner(*self.ids.root)
        _, permitted, inheritable = syscalls.capget()
        syscalls.capset(permitted, permitted, inheritable)  # the kernel has taken those over files away

    @contextlib.contextmanager
    def without_rights(self) -> Iterator[None]:
        """Have no rights over files for a moment but those of the container's root as the owner of some."""
        effective, permitted, inheritable = syscalls.capget()
        syscalls.capset(effective & ~_OVER_FILES, permitted, inheritable)
        try:
            yield
        finally:
            syscalls.capset(effective, permitted, inheritable)

    @contextlib.contextmanager
    def as_root(self) -> Iterator[None]:
        """Be the container's root for a moment, who alone may change the parameters of an IPC namespace."""
        os.seteuid(self.ids.root[0])
        try:
            yield
        finally:
            os.seteuid(0)
            self.make_files()

    def make_place(self, make: Callable[[int, str], int], root_fd: int, path: str) -> None:
        """Make the place of a mount beneath the root, where it is missing, as the container's root. Raises OSError.

        An image can have the way lead into a bind of the host. make: what makes it, and opens it
        """
        try:
            with self.without_rights():
                os.close(make(root_fd, path))
            return
        except PermissionError:
            helper = os.fork()  # root may more in its own namespace, where most directories are of users that it has
        if helper == 0:
            number = errno.EIO
            try:
                syscalls.setns(self.users, syscalls.CLONE_NEWUSER)
                make(root_fd, path)
                number = 0
            except OSError as error:
                number = error.errno or number
            finally:
                os._exit(number)
        number = os.waitstatus_to_exitcode(os.waitpid(helper, 0)[1])
        if number:
            number = max(number, errno.EPERM)
            raise OSError(number, os.strerror(number), path)

    def show(self, directory: str) -> None:
        """Show the directory in this mount namespace with the container's ids. Raises SystemFailure."""
        place = os.open(directory, _PLACE)
        try:
            tree = syscalls.open_tree(place, "", syscalls.OPEN_TREE_CLONE | syscalls.AT_EMPTY_PATH)
            try:
                syscalls.mount_setattr(tree, 0, syscalls.MOUNT_ATTR_IDMAP, users=self.users)
                syscalls.move_mount(tree, place)
            finally:
                os.close(tree)
        except OSError as error:
            raise SystemFailure(f"idmapped mount of {directory}: {reasons.of(error)}") from error
        finally:
            os.close(place)

    def owned(self, mount: Mount) -> Mount:
        """The mount with the owners in its options as the host has them: they are the container's ids.

        The group tty, which nobody has asked for, is left out where it is not mapped. Raises Invalid for another one.
        """
        if mount.kind not in _OWNED or "id=" not in mount.data:
            return mount
        try:
            return replace(mount, data=",".join(map(self._owned, mount.data.split(","))))
        except Invalid:
            if mount.asked:
                raise
        return replace(mount, data=",".join(each for each in mount.data.split(",") if not each.startswith("gid=")))

    def _owned(self, option: str) -> str:
        name, _, value = option.partition("=")
        number = natural(value, _LAST_ID)
        if number is None or name not in ("uid", "gid"):
            return option
        return f"{name}={self.ids.outside(number, 0)[0] if name == 'uid' else self.ids.outside(0, number)[1]}"


def born(sandbox: Sandbox, opened: list[tuple[str, int]]) -> tuple[Remapped, list[tuple[str, int]]]:
    """The user namespace of a container, and the namespaces that it is to enter before.

    opened: those that are joined (`namespaces.open_joined`); the container's own of `OF_USER` come to them. Where
        another container's user namespace is among them, that is taken, else a new one is made

    Raises SystemFailure.
    """
    users, ids = dict(opened).get("user", -1), Ids(sandbox.uids, sandbox.gids)
    remapped, made = _made(ids, users, tuple(name for name in sandbox.namespaces if name in OF_USER))
    if users >= 0:
        os.close(users)
    return remapped, [*(each for each in opened if each[0] != "user"), *made]


def of_process(pid: int, sandbox: Sandbox) -> Remapped:
    """The user namespace of a container, by its process 1. Raises OSError when it is gone."""
    return Remapped(userns.outermost(pid), Ids(sandbox.uids, sandbox.gids))


def _made(ids: Ids, users: int, names: tuple[str, ...]) -> tuple[Remapped, list[tuple[str, int]]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    helper = os.fork()
    if helper == 0:
        try:
            ours.close()
            _help(theirs, users, names)
        finally:
            os._exit(1)
    theirs.close()
    try:
        with ours:
            pid = int(_heard(ours)[0])
            if users < 0:
                _map(pid, ids)
            ours.send(_GO)
            opened = _heard(ours)[1]
    finally:
        os.waitpid(helper, 0)
    return Remapped(opened[0], ids), list(zip(names, opened[1:], strict=True))


def _heard(helper: socket.socket) -> tuple[bytes, list[int]]:
    told, opened, _, _ = socket.recv_fds(helper, 64, 1 + len(OF_USER))
    if not told or told.startswith(_FAILED):
        number = int(told.removeprefix(_FAILED) or errno.EIO)
        raise SystemFailure(f"a user namespace cannot be made: {reasons.of(number)}")
    return told, opened


def _map(pid: int, ids: Ids) -> None:
    try:
        for name, wanted in (("uid_map", ids.users), ("gid_map", ids.groups)):
            with open(f"/proc/{pid}/{name}", "wb", buffering=0) as file:
                file.write(idmaps.text(wanted))
    except OSError as error:
        raise SystemFailure(f"the ids of the container cannot be mapped: {reasons.whole(error)}") from error


def _help(told: socket.socket, users: int, names: tuple[str, ...]) -> None:
    """Be the helper: make the namespaces as the root that is to own them, and hand them over."""
    try:
        if users >= 0:
            syscalls.setns(users, syscalls.CLONE_NEWUSER)
        else:
            syscalls.unshare(syscalls.CLONE_NEWUSER)
        told.send(os.fsencode(os.readlink("/proc/self")))
        if told.recv(len(_GO)) != _GO:
            os._exit(1)
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
        syscalls.unshare(flags(names))
        links = ("user", *(NAMESPACES[name].link for name in names))
        opened = [os.open(f"/proc/self/ns/{link}", os.O_RDONLY | os.O_CLOEXEC) for link in links]
    except OSError as error:
        told.send(_FAILED + b"%d" % (error.errno or errno.EIO))
        os._exit(1)
    socket.send_fds(told, [_GO], opened)
    os._exit(0)
