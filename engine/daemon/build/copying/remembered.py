"""Digests of files that are remembered from one build to the next, so that what did not change is not read again.

A file is known by its inode, size and times: whatever changes its contents or attributes changes the time of its inode.
That time has a granularity, so what changed just before it was digested is not remembered. One directory has one file
of digests, which only the build that uses the directory reads and writes; a torn one counts as none.
"""

import contextlib
import logging
import os
import stat
import struct
import time

log = logging.getLogger(__name__)

_KEY = struct.Struct("<QQqq")  # inode, size, time of the contents, time of the inode
_DIGEST = 32
_ENTRY = _KEY.size + _DIGEST
_MARK = b"engine digests 1\n"
_MOST = 64 << 20  # bytes of the file; of more files nothing is remembered
_YOUNG_NS = 50_000_000


class Remembered:
    """The digests of the regular files of one directory that have no extended attributes.

    They stay packed, because a context may have a hundred thousand files.
    """

    def __init__(self, path: str) -> None:
        """path: of the file; it is read now. One that is missing or torn has no digests."""
        self._path = path
        self._known: dict[bytes, bytes] = {}
        self._met: dict[bytes, bytes] = {}  # in this build; what is in here is no longer in `_known`
        self._changed = False
        with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
            data = file.read(_MOST)
            body = data.removeprefix(_MARK)
            if len(body) != len(data) and len(body) % _ENTRY == 0:
                view, places = memoryview(body), range(0, len(body), _ENTRY)
                key, whole = _KEY.size, _ENTRY
                self._known = {bytes(view[at : at + key]): bytes(view[at + key : at + whole]) for at in places}

    def find(self, found: os.stat_result) -> bytes | None:
        """The sha256 of the contents of a file with this status, None where it is not known."""
        if not stat.S_ISREG(found.st_mode):
            return None
        key = _key(found)
        digest = self._met.get(key)
        if digest is None:
            digest = self._known.pop(key, None)
            if digest is not None:
                self._met[key] = digest
        return digest

    def learn(self, found: os.stat_result, digest: bytes) -> None:
        """The contents of a file without extended attributes, and with this status before and after it was read."""
        if time.time_ns() - found.st_ctime_ns > _YOUNG_NS:
            self._met[_key(found)] = digest
            self._changed = True

    def save(self) -> None:
        """Write what was met in this build, if any of it is new. A disk that takes no more is logged: the next build
        reads the files again.
        """
        if not self._changed or len(self._met) * _ENTRY > _MOST - len(_MARK):
            return
        try:
            with open(f"{self._path}.new", "wb") as file:
                file.write(_MARK + b"".join(key + digest for key, digest in self._met.items()))
            os.rename(f"{self._path}.new", self._path)
        except OSError as error:
            log.warning("the digests of a context's files cannot be kept: %s", error)
        self._changed = False


def _key(found: os.stat_result) -> bytes:
    return _KEY.pack(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
