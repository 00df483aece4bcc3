"""A container's root file system as one tar: GET /containers/{id}/export.

Runs in the request's thread, and in the thread of `rootfs.visit`. What is mounted in the container is left out,
as docker leaves it out: a mount's place stands in the archive, what is mounted there does not.
"""

import os
from collections.abc import Callable

from engine.daemon.containers.announce import announce
from engine.daemon.containers.contents import rootfs
from engine.daemon.containers.contents.rootfs import View
from engine.daemon.containers.record import Container
from engine.daemon.parts import MountParts
from engine.daemon.tar.writer import Chunk, Packer
from engine.errors import SystemFailure
from engine.sandbox.mounts import words


def export(engine: MountParts, container: Container, begin: Callable[[], Callable[[Chunk], None]]) -> None:
    """Send the archive. begin: called once the root is there; what it returns takes the bytes. Raises SystemFailure."""

    def work(seen: View) -> None:
        try:
            top = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=seen.root)
            try:
                write = begin()
                packer = Packer()
                for chunk in packer.contents(top, ""):
                    write(chunk)
                seen.check()
                write(packer.end())
            finally:
                os.close(top)
        except OSError as error:
            raise SystemFailure(f"failed to read from the container: {words(error)}") from error

    rootfs.visit(engine, container, work, mounted=False)
    announce(engine, container, "export")
