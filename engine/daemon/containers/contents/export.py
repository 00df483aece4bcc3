"""Pack a container's root file system into one tar archive, for GET /containers/{id}/export.

Runs in the request's thread, and in the thread of `rootfs.visit`. As in docker, the files of mounts are left out: the
archive has the directory or file that is mounted on, and not what is mounted there.
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
    """Send the archive.

    begin: called once the root is open; the function that it returns takes the bytes. Raises SystemFailure.
    """

    def work(seen: View) -> None:
        try:
            top = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=seen.root)
            try:
                write = begin()
                packer = Packer(shown_as=seen.shown_as)
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
