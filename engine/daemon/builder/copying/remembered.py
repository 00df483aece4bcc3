"""Digests of files that are remembered from one build to the next, so that what did not change is not read again.

A file is known by its inode, size and times: whatever changes its contents or attributes changes the time of its inode.
That time has a granularity, so what changed just before it was digested is not remembered. One directory has one file
of digests, which only the build that uses the directory reads and writes; a torn one counts as none.
"""

import contextlib
import logging
import os
import re
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
_TREE = re.compile(r"([0-9a-f]{64}) ((?:file|dir|multi):[0-9a-f]{64})")
_MOST_TREES = 1000


class Remembered:
    """The digests of the regular files of one directory that have no extended attributes.

    They stay packed, because a context may have a hundred thousand files.
    """

    def __init__(self, path: str, trees: str = "") -> None:
        """path: of the file. One that is missing or torn has no digests.

        trees: path of a file with digests of whole sources, empty for none; who changes any file removes it before
        """
        self._path, self._trees_path = path, trees
        self._known: dict[bytes, bytes] | None = None  # None until it is needed
        self._met: dict[bytes, bytes] = {}  # in this build; what is in here is no longer in `_known`
        self._changed = False
        self._trees: dict[str, str] = {}  # by what of the files is meant, how the sources are shown
        self._new_trees = self._found_trees = False
        with contextlib.suppress(FileNotFoundError, UnicodeDecodeError), open(trees or os.devnull) as file:
            lines = file.read(_MOST_TREES * 140).splitlines()
            self._trees = {found[1]: found[2] for line in lines if (found := _TREE.fullmatch(line))}

    def tree(self, sources: str) -> str | None:
        """The digest of sources, as it was learned while all files were as they are now. sources: which, in hex"""
        digest = self._trees.get(sources)
        self._found_trees = self._found_trees or digest is not None
        return digest

    def learn_tree(self, sources: str, digest: str) -> None:
        """The digest of sources, as the files are now."""
        if self._trees_path:
            self._trees[sources] = digest
            self._new_trees = True

    def _read(self) -> dict[bytes, bytes]:
        if self._known is None:
            self._known = {}
            with contextlib.suppress(FileNotFoundError), open(self._path, "rb") as file:
                data = file.read(_MOST)
                body = data.removeprefix(_MARK)
                if len(body) != len(data) and len(body) % _ENTRY == 0:
                    view, places = memoryview(body), range(0, len(body), _ENTRY)
                    key, whole = _KEY.size, _ENTRY
                    self._known = {bytes(view[at : at + key]): bytes(view[at + key : at + whole]) for at in places}
        return self._known

    def find(self, found: os.stat_result) -> bytes | None:
        """The sha256 of the contents of a file with this status, None where it is not known."""
        if not stat.S_ISREG(found.st_mode):
            return None
        key = _key(found)
        digest = self._met.get(key)
        if digest is None:
            digest = self._read().pop(key, None)
            if digest is not None:
                self._met[key] = digest
        return digest

    def learn(self, found: os.stat_result, digest: bytes, closed: bool = False) -> None:
        """The contents of a file without extended attributes, and with this status before and after it was read.

        closed: nobody changes it any more
        """
        if closed or time.time_ns() - found.st_ctime_ns > _YOUNG_NS:
            self._met[_key(found)] = digest
            self._changed = True

    def save(self, whole: bool = True) -> None:
        """Write what this build has learned. A disk that takes no more is logged: the next build reads the files again.

        What was not met is forgotten, unless the digests of whole sources were found: then it was not looked for.
        whole: else nothing was looked for at all
        """
        met = {**self._read(), **self._met} if self._changed and (self._found_trees or not whole) else self._met
        if self._changed and len(met) * _ENTRY <= _MOST - len(_MARK):
            _write(self._path, _MARK + b"".join(key + digest for key, digest in met.items()))
        if self._new_trees:
            kept = list(self._trees.items())[-_MOST_TREES:]
            _write(self._trees_path, "".join(f"{sources} {digest}\n" for sources, digest in kept).encode())
        self._changed = self._new_trees = False


def _write(path: str, data: bytes) -> None:
    try:
        with open(f"{path}.new", "wb") as file:
            file.write(data)
        os.rename(f"{path}.new", path)
    except OSError as error:
        log.warning("the digests of a context's files cannot be kept: %s", error)


def _key(found: os.stat_result) -> bytes:
    return _KEY.pack(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
