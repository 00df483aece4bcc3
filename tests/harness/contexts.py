"""Build contexts made in memory, builds over raw HTTP, and what is in the images that come out.

Pure but for `build` and `tree`, which speak to a daemon.
"""

import io
import json
import re
import tarfile
from dataclasses import dataclass
from urllib.parse import urlencode

from tests.harness.daemon import Daemon

TAR = {"Content-Type": "application/x-tar"}
# Whole seconds, as tar has them.
TIME = 1_000_000_000


@dataclass(frozen=True)
class Member:
    """One member of a tar. content: bytes or text of a file, None of a directory; kind: `tarfile`'s type for others."""

    name: str
    content: bytes | str | None = b""
    mode: int = -1
    uid: int = 0
    gid: int = 0
    kind: bytes = b""
    link: str = ""
    device: tuple[int, int] = (0, 0)
    attributes: tuple[tuple[str, str], ...] = ()
    mtime: int = TIME


def link(name: str, target: str) -> Member:
    """A symbolic link."""
    return Member(name, kind=tarfile.SYMTYPE, link=target)


def hard(name: str, target: str) -> Member:
    """A hard link."""
    return Member(name, kind=tarfile.LNKTYPE, link=target)


def archive(*members: Member) -> bytes:
    """The members as a PAX tar."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for member in members:
            info = tarfile.TarInfo(member.name)
            info.uid, info.gid, info.mtime, info.linkname = member.uid, member.gid, member.mtime, member.link
            info.devmajor, info.devminor = member.device
            info.pax_headers = {f"SCHILY.xattr.{key}": value for key, value in member.attributes}
            data = member.content.encode() if isinstance(member.content, str) else member.content
            info.type = member.kind or (tarfile.DIRTYPE if data is None else tarfile.REGTYPE)
            default = 0o755 if info.type == tarfile.DIRTYPE else 0o644
            info.mode = member.mode if member.mode >= 0 else default
            if info.type == tarfile.REGTYPE:
                info.size = len(data)
            tar.addfile(info, io.BytesIO(data or b""))
    return out.getvalue()


@dataclass(frozen=True)
class Built:
    """What came of a build. id: empty for one that failed; said: the stream's text; error: the last line's, or the
    answer's, of status `status`."""

    status: int
    id: str
    said: str
    error: str


def build(daemon: Daemon, words: str, *members: Member, body: bytes | None = None, **query: object) -> Built:
    """POST /build of a context with that Dockerfile, or of `body` as it is."""
    sent = archive(Member("Dockerfile", words), *members) if body is None else body
    asked = {key: value if isinstance(value, str) else json.dumps(value) for key, value in query.items()}
    answer = daemon.request("POST", f"/build?{urlencode(asked)}", sent, TAR)
    if answer.status != 200:
        return Built(answer.status, "", "", answer.message)
    said = "".join(line.get("stream", "") for line in answer.lines)
    error = next((line["error"] for line in answer.lines if "error" in line), "")
    found = re.search(r"^Successfully built (\w+)$", said, re.MULTILINE)
    return Built(200, found[1] if found and not error else "", said, error)


def tree(daemon: Daemon, image: str, path: str) -> dict[str, str]:
    """What the image has at the path: name → `MODE UID:GID CONTENT`, a link's target after an arrow."""
    container = daemon.create(Image=image, Cmd=["x"])
    try:
        answer = daemon.request("GET", f"/containers/{container}/archive?path={path}")
        assert answer.status == 200, answer
        with tarfile.open(fileobj=io.BytesIO(answer.body)) as tar:
            return {member.name.strip("/") or "/": _shown(tar, member) for member in tar}
    finally:
        daemon.remove(container)


_KINDS = {tarfile.DIRTYPE: "d", tarfile.SYMTYPE: "l", tarfile.FIFOTYPE: "p", tarfile.CHRTYPE: "c", tarfile.LNKTYPE: "h"}


def _shown(tar: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    what = f"{_KINDS.get(member.type, '-')}{member.mode & 0o7777:04o} {member.uid}:{member.gid}"
    if member.linkname:
        return f"{what} -> {member.linkname}"
    data = tar.extractfile(member) if member.isreg() else None
    return what if data is None else f"{what} {data.read().decode(errors='replace')}"
