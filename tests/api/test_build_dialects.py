"""Dockerfiles that the two builders read differently, on both doors: what buildkitd 0.34 makes of them, and dockerd's.

BuildKit's side was asked of a real buildkitd with its own frontend. The classic builder has flags here that dockerd's
has not; with them it does by its own rules what they say.
"""

import io
import tarfile
import uuid
from collections.abc import Iterator

import pytest

from tests.api.test_requestbuild import ask, ask_with, image, written
from tests.harness.contexts import Member, archive, build, link, tree
from tests.harness.daemon import Daemon

BASE = archive(
    Member("etc", None),
    Member("etc/passwd", "root:x:0:0::/:/bin/sh\nbob:x:1000:50::/:/bin/sh\n"),
    Member("etc/group", "root:x:0:\nstaff:x:50:\n"),
    Member("usr", None),
    Member("usr/lib", None),
    Member("usr/lib/old", "old"),
    link("lib", "usr/lib"),
    Member("n", None, mode=0o711),
    Member("n/dir", None),
    Member("n/dir/x", None),
    Member("n/file", "file"),
    link("n/link", "/n/file"),
    Member("n/set", None, mode=0o2755, gid=7),
)


def packed(name: str, content: str, kind: bytes = tarfile.REGTYPE) -> bytes:
    """A tar of one member."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        info = tarfile.TarInfo(name)
        info.type, info.size, info.uid, info.gid = kind, len(content), 5, 6
        tar.addfile(info, io.BytesIO(content.encode()))
    return out.getvalue()


CONTEXT = (
    Member("a", "A"),
    link("dangling", "nowhere"),
    Member("b", "B"),
    Member("d", None),
    Member("d/x", "X"),
    Member("d/y", None, mode=0o700),
    Member("d/y/z", "Z"),
    Member("lib", None),
    Member("lib/new", "new"),
    Member("p/1/f", "1"),
    Member("p/2/f", "2"),
    Member("p/2/g", "g"),
    Member("t.tar", packed("m", "M")),
    Member("torn.tar", packed("m", "M" * 5000)[:3000]),
    Member("label.tar", packed("Volume", "", b"V")),
)
A, B = "-0644 0:0 A", "-0644 0:0 B"
SEVERAL = "When using COPY with more than one source file, the destination must be a directory and end with a /"


@pytest.fixture(scope="module")
def base(daemon: Daemon) -> Iterator[str]:
    name = f"dialects-{uuid.uuid4().hex[:8]}"
    assert build(daemon, "FROM scratch\nADD base.tar /", Member("base.tar", BASE), t=name).id
    yield name
    daemon.request("DELETE", f"/images/{name}?force=1")


def made(daemon: Daemon, base: str, version: str, lines: str, **query: str) -> dict[str, str] | str:
    """What the image has in /n, or the build's error."""
    text = f"FROM {base}\n{lines}\nCMD x\n"
    if version == "1":
        built = build(daemon, text, *CONTEXT, **query)
        return tree(daemon, built.id, "/n") if built.id else built.error
    answer = ask_with(daemon, archive(Member("Dockerfile", text), *CONTEXT), **query)
    errors = [line["error"] for line in answer.lines if "error" in line]
    return errors[0] if errors else tree(daemon, image(answer), "/n")


# (lines, what is new or changed below /n with BuildKit, or its error; the same of the classic builder)
Said = dict[str, str] | str
TREES: tuple[tuple[str, Said, Said], ...] = (
    ("WORKDIR /n\nCOPY a b .", {"a": A, "b": B}, SEVERAL),
    ("COPY a b /n", {"a": A, "b": B}, SEVERAL),
    ("COPY a b /n/new", {"new": B}, SEVERAL),
    ("COPY [ab] /n/new", {"new": B}, SEVERAL),
    ("ADD a d /n/dir/x", {"dir/x/a": A, "dir/x/x": "-0644 0:0 X", "dir/x/y": "d0700 0:0", "dir/x/y/z": "-0644 0:0 Z"},
     SEVERAL.replace("COPY", "ADD")),
    ("COPY a .npmrc* /n/", {"a": A}, {"a": A}),
    ("COPY .npmrc* /n/", {}, "COPY failed: no source files were specified"),
    ("COPY nodir/* /n/", "lstat /nodir: no such file or directory", "COPY failed: no source files were specified"),
    ("COPY ../a /n/", {"a": A}, "COPY failed: forbidden path outside the build context: ../a ()"),
    ("COPY ../../p/../b /n/", {"b": B}, "COPY failed: forbidden path outside the build context: ../../p/../b ()"),
    ("COPY nothere /n/", 'failed to calculate checksum: "/nothere": not found', "nothere: file does not exist"),
    ("COPY --exclude=a a b /n/", {"a": A, "b": B}, {"b": B}),
    # Owners
    ("COPY --chown=bob a /n/", {"a": "-0644 1000:50 A"}, "no such group: bob"),
    ("COPY --chown=bob: a /n/", {"a": "-0644 1000:50 A"}, "no such group: "),
    ("COPY --chown=:staff a /n/", {"a": "-0644 0:50 A"}, "no such user: "),
    ("COPY --chown=:2 a /n/", {"a": "-0644 0:2 A"}, "no such user: "),
    ("COPY --chown=1: a /n/", {"a": "-0644 1:1 A"}, "no such group: "),
    ("COPY --chown=nobody a /n/", {"a": A}, "no such user: nobody"),
    ("COPY --chown=1:nobody a /n/", {"a": "-0644 1:1 A"}, "no such group: nobody"),
    ("COPY --chown=bob:root a /n/", {"a": "-0644 1000:0 A"}, {"a": "-0644 1000:0 A"}),
    ("COPY --link --chown=bob a /n/", "--chown=bob: user and group names can't be resolved", "no such group: bob"),
    # The directories above
    ("COPY --chown=3:4 --chmod=750 a /n/1/2/f", {"1": "d0750 3:4", "1/2": "d0750 3:4", "1/2/f": "-0750 3:4 A"},
     {"1": "d0755 3:4", "1/2": "d0755 3:4", "1/2/f": "-0750 3:4 A"}),
    ("COPY --chown=3:4 lib /n/1/2", {"1": "d0755 3:4", "1/2": "d0755 3:4", "1/2/new": "-0644 3:4 new"},
     {"1": "d0755 0:0", "1/2": "d0755 3:4", "1/2/new": "-0644 3:4 new"}),
    ("COPY --link --chown=3:4 --chmod=u=rwx,go= lib /n/1", {"1": "d0755 3:4", "1/new": "-0700 3:4 new"},
     {"1": "d0700 3:4", "1/new": "-0700 3:4 new"}),
    ("ADD --chown=3:4 --chmod=700 t.tar /n/1/2", {"1": "d0755 3:4", "1/2": "d0755 3:4", "1/2/m": "-0644 3:4 M"},
     {"1": "d0755 0:0", "1/2": "d0755 0:0", "1/2/m": "-0644 5:6 M"}),
    # What is there already
    ("COPY d /n/dir", "cannot replace to directory /n/dir/x with file",
     {"dir/x": "-0644 0:0 X", "dir/y": "d0700 0:0", "dir/y/z": "-0644 0:0 Z"}),
    ("COPY d /n/file", "cannot copy to non-directory: /n/file", "mkdir /n/file: not a directory"),
    ("COPY . /", "cannot copy to non-directory: /lib", {}),
    ("COPY a /n/link", {"file": A}, {"file": A}),
    ("COPY a /n/file/x", "mkdir /n/file: not a directory", "lstat /n/file/x: not a directory"),
    ("COPY lib/* /n/file/x/y", "lstat /n/file/x: not a directory", "lstat /n/file/x/y: not a directory"),
    ("ADD t.tar /n/file", "mkdir /n/file: not a directory", "mkdir /n/file: not a directory"),
    ("ADD torn.tar /n/", "unexpected EOF", "unexpected EOF"),
    ("ADD label.tar /n/", "unhandled tar header type 86", "unhandled tar header type 86"),
    ("COPY --exclude=x nothere /n/", "lstat /nothere: no such file or directory", "nothere: file does not exist"),
    ("COPY dangl* /n/", '"/dangling": not found', "dangling: file does not exist"),
    ("COPY a /n/set/new/", {"set/new": "d2755 0:7", "set/new/a": A}, {"set/new": "d0755 0:0", "set/new/a": A}),
    ("USER nobody\nWORKDIR /n/w", {"w": "d0755 0:0"}, {"w": "d0755 0:0"}),
    ("USER bob\nWORKDIR /n/w", {"w": "d0755 1000:50"}, {"w": "d0755 0:0"}),
    ("USER 7\nWORKDIR /n/w", {"w": "d0755 7:7"}, {"w": "d0755 0:0"}),
    # --parents
    ("COPY --parents --chmod=711 p/1 /n/\nCOPY --parents --chmod=600 p/1/f /n/",
     {"p": "d0755 0:0", "p/1": "d0755 0:0", "p/1/f": "-0600 0:0 1"},
     {"p": "d0600 0:0", "p/1": "d0600 0:0", "p/1/f": "-0600 0:0 1"}),
    ("COPY --parents p/*/./* /n/1/", {"1": "d0755 0:0", "1/f": "-0644 0:0 2", "1/g": "-0644 0:0 g"}, "not found"),
    ("COPY --parents p/*/f /n/", {"p": "d0755 0:0", "p/1": "d0755 0:0", "p/1/f": "-0644 0:0 1", "p/2": "d0755 0:0",
     "p/2/f": "-0644 0:0 2"}, {"p": "d0755 0:0", "p/1": "d0755 0:0", "p/1/f": "-0644 0:0 1", "p/2": "d0755 0:0",
     "p/2/f": "-0644 0:0 2"}),
    ("COPY --parents ./p/9/./x /n/", '"/p/9/x": not found', "stat p/9/x: file does not exist"),
)  # fmt: skip


@pytest.mark.parametrize(("lines", "buildkit", "classic"), TREES, ids=[each[0] for each in TREES])
def test_files_are_copied_as_each_builder_does(
    daemon: Daemon, base: str, lines: str, buildkit: Said, classic: Said
) -> None:
    before = {"": "d0711 0:0", "dir": "d0755 0:0", "dir/x": "d0755 0:0", "file": "-0644 0:0 file"}
    before["set"] = "d2755 0:7"
    before["link"] = "l0777 0:0 -> /n/file"
    for version, expected in (("2", buildkit), ("1", classic)):
        found = made(daemon, base, version, lines)
        if isinstance(expected, str):
            assert isinstance(found, str) and expected in found, (version, found)
        else:
            assert found == {f"n/{name}".rstrip("/"): what for name, what in {**before, **expected}.items()}, version


# Mounts, which BuildKit brought


def said(daemon: Daemon, *lines: str, files: dict[str, str] | None = None, **query: str) -> list[str]:
    """What the commands of a build by BuildKit write."""
    text = "\n".join((f"FROM busybox AS base\nENV of={uuid.uuid4().hex}", *lines))
    return written(ask(daemon, {"Dockerfile": text, **(files or {})}, **query)).splitlines()


def test_a_mount_without_a_target_or_with_a_relative_one_lies_at_the_working_directory(
    daemon: Daemon, busybox: str
) -> None:
    steps = ("WORKDIR /w", "RUN --mount=type=bind ls", "RUN --mount=target=m,source=f ls -d /w/m; cat m")
    assert said(daemon, *steps, files={"f": "file\n"}) == ["Dockerfile", "f", "/w/m", "file"]
    mounted = said(
        daemon, "WORKDIR /w", *(f"RUN --mount=type={kind} grep -c ' /w ' /proc/mounts" for kind in ("tmpfs", "cache"))
    )
    assert mounted == ["1", "1"]


def test_a_cache_is_named_by_its_target_as_it_is_written(daemon: Daemon, busybox: str) -> None:
    name = uuid.uuid4().hex
    put, whole, named = (f"RUN --mount=type=cache,target={each}" for each in (name, f"/w/{name}", f"/c,id={name}"))
    assert said(daemon, "WORKDIR /w", f"{put} touch {name}/x", f"{whole} ls {name}", f"{named} ls /c") == ["x"]


def test_the_root_of_what_is_mounted_is_open_to_every_user(daemon: Daemon, busybox: str) -> None:
    look = "stat -c %a:%u /m; ls /m"
    steps = (f"RUN --mount=target=/m{more} {look}" for more in ("", ",rw"))
    assert said(daemon, "USER 7", *steps, files={"f": ""}) == ["755:0", "Dockerfile", "f"] * 2
    stage = ("FROM scratch AS empty", "FROM base", "USER 7")
    steps = (f"RUN --mount=from=empty,target=/m{more} {look}" for more in ("", ",rw"))
    assert said(daemon, *stage, *steps) == ["755:0"] * 2


def test_an_empty_stage_is_mounted(daemon: Daemon, busybox: str) -> None:
    stage = ("FROM scratch AS empty", "FROM base")
    assert said(daemon, *stage, "RUN --mount=from=empty,target=/m,rw touch /m/x; ls /m") == ["x"]
    assert said(daemon, *stage, "RUN --mount=from=scratch,target=/m ls /m; echo none") == ["none"]
    missing = ask(daemon, "FROM scratch AS e\nFROM busybox\nRUN --mount=from=e,source=/a,target=/m x\n")
    assert "failed to find the mount's source /a" in missing.lines[-1]["error"]


@pytest.mark.parametrize("layers", [1, 2])
def test_names_of_one_file_stay_so_in_a_source_that_may_be_written_to(
    daemon: Daemon, busybox: str, layers: int
) -> None:
    make = "RUN mkdir /q /q/d; echo 1 >/q/f; ln /q/f /q/d/g"
    below = () if layers == 2 else ("FROM scratch", "COPY --from=base /q /q")
    seen = said(
        daemon,
        make,
        *below,
        "FROM base",
        f"RUN --mount=from={1 if below else 0},source=/q,target=/m,rw echo 2 >>/m/f; cat /m/d/g",
    )
    assert seen == ["1", "2"]


@pytest.mark.parametrize("sharing", [("locked", "locked"), ("private", "private"), ("locked", "shared")])
def test_two_mounts_of_one_cache_are_one_directory(daemon: Daemon, busybox: str, sharing: tuple[str, str]) -> None:
    id = uuid.uuid4().hex
    mounts = " ".join(f"--mount=type=cache,id={id},sharing={each},target=/{at}" for at, each in enumerate(sharing))
    assert said(daemon, f"RUN {mounts} touch /0/x; ls /1") == ["x"]


def test_a_build_without_the_cache_empties_what_it_mounts_once(daemon: Daemon, busybox: str) -> None:
    mount = f"RUN --mount=type=cache,id={uuid.uuid4().hex},target=/c"
    assert said(daemon, f"{mount} touch /c/old") == []
    assert said(daemon, f"{mount} ls /c; touch /c/new", f"{mount} ls /c", nocache="1") == ["new"]
    assert said(daemon, f"{mount} ls /c") == ["new"]


def test_the_whole_context_has_no_parents(daemon: Daemon, base: str) -> None:
    """BuildKit requires the path, and does not find the root."""
    assert '"/": not found' in made(daemon, base, "2", "COPY --parents . /n/")


def test_an_image_for_one_platform_alone_serves_for_another(daemon: Daemon, base: str) -> None:
    """With BuildKit, which warns of it; the classic builder looks for another one."""
    text = f"FROM --platform=linux/s390x {base}\nCOPY Dockerfile /n/\n"
    answer = ask_with(daemon, archive(Member("Dockerfile", text)))
    assert "n/Dockerfile" in tree(daemon, image(answer), "/n")
    refused = build(daemon, text)
    assert not refused.id and "failed to resolve reference" in refused.error, refused
