"""Attacks on a build: hostile contexts, base images and archives. Nothing outside the image may be read or written.

CVE-2014-9357, CVE-2014-6407, CVE-2019-14271 and their like: links, dots and devices in what a daemon unpacks as root;
CVE-2024-24557: a cache that believes images of others.
"""

import gzip
import io
import os
import tarfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.harness.contexts import Member, archive, build, hard, link, tree
from tests.harness.daemon import Daemon

pytestmark = pytest.mark.root

SECONDS = 10.0
SECRET = "only the host knows"


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory of the host with a secret; it must look the same in the end."""
    place = tmp_path_factory.mktemp("victim")
    (place / "secret").write_text(SECRET)
    before = (place.stat().st_mode, (place / "secret").stat().st_mtime_ns)
    yield place
    assert os.listdir(place) == ["secret"] and (place / "secret").read_text() == SECRET
    assert (place.stat().st_mode, (place / "secret").stat().st_mtime_ns) == before


def nothing_is_left(daemon: Daemon) -> bool:
    """Whether no build's directory is there any more."""
    return not [name for name in os.listdir(daemon.data_root / "tmp") if name.startswith(("build-", "merged-"))]


def test_links_of_the_context_lead_nowhere_but_into_it(daemon: Daemon, victim: Path) -> None:
    up = "../" * 30
    members = (
        link("absolute", f"{victim}/secret"),
        link("relative", f"{up}{victim}/secret"),
        link("directory", str(victim)),
        Member("tree", None),
        link("tree/inner", str(victim)),
    )
    for words in ("absolute", "relative", "directory", "directory/secret", "tree/inner/secret", "tree/inner/sec*"):
        made = build(daemon, f"FROM scratch\nCOPY {words} /x", *members)
        assert not made.id and SECRET not in made.said + made.error, made
    made = build(daemon, "FROM scratch\nCOPY tree /x", *members)
    assert tree(daemon, made.id, "x")["x/inner"] == f"l0777 0:0 -> {victim}"
    assert build(daemon, "", body=archive(link("Dockerfile", f"{up}{victim}/secret"))).status == 500
    assert build(daemon, "", body=archive(link("d", str(victim))), dockerfile="d/secret").status == 500


def test_members_of_the_context_are_not_written_through_links(daemon: Daemon, victim: Path) -> None:
    text = Member("Dockerfile", "FROM scratch\nCOPY . /x")
    for members in (
        [link("out", str(victim)), Member("out/planted", "x")],
        [link("out", "../" * 30 + str(victim)[1:]), Member("out/planted", "x")],
        [link("out", f"{victim}/secret"), Member("out", "x")],
        [link("out", str(victim)), Member("out", None, mode=0o777)],
        [link("a", ".."), link("a/b", ".."), Member(f"a/b{victim}/planted", "x")],
    ):
        build(daemon, "", body=archive(text, *members))
    for member in (
        Member("../planted", "x"),
        Member("a/../../planted", "x"),
        hard("h", "../" * 9 + f"{victim}/secret"),
    ):
        made = build(daemon, "", body=archive(text, member))
        assert made.status == 500 and not made.id, made
    assert nothing_is_left(daemon)


@pytest.fixture(scope="module")
def trap(daemon: Daemon, victim: Path) -> Iterator[str]:
    """An image whose every directory leads out of it, if links are believed."""
    up = "../" * 30
    members = [
        link("etc", up),
        link("host", str(victim)),
        link("far", f"{up}{victim}"),
        link("loop1", "loop2"),
        link("loop2", "loop1"),
        Member("real", None),
        link("real/deeper", f"../../..{victim}"),
    ]
    daemon.import_image(archive(*members), "trap:latest")
    yield "trap"
    daemon.request("DELETE", "/images/trap:latest?force=1")


@pytest.mark.parametrize("where", ["/host/", "/far/", "/real/deeper/", "/host/new/er/", "/far", "/etc/"])
@pytest.mark.parametrize("words", ["COPY planted", "COPY --chown=1:1 dir", "ADD a.tar"])
def test_a_base_image_leads_no_copy_out_of_it(daemon: Daemon, victim: Path, trap: str, where: str, words: str) -> None:
    inner = archive(Member("planted", "x"), Member("host/planted", "x"), Member("far/planted", "x"))
    members = (Member("planted", "x"), Member("dir", None), Member("dir/planted", "x"), Member("a.tar", inner))
    made = build(daemon, f"FROM trap\n{words} {where}", *members)
    assert made.id or made.error, made
    assert os.listdir(victim) == ["secret"]


def test_names_of_owners_are_never_the_hosts(daemon: Daemon, trap: str) -> None:
    for name in ("root", "daemon", "nobody"):
        made = build(daemon, f"FROM trap\nCOPY --chown={name} planted /p", Member("planted", "x"))
        assert f"no such user: {name}" in made.error


def test_archives_that_are_added_write_nothing_outside(daemon: Daemon, busybox: str, victim: Path) -> None:
    for members in (
        [link("l", str(victim)), Member("l/planted", "x")],
        [link("l", "/" + "../" * 30 + str(victim)), Member("l/planted", "x")],
        [Member("../planted", "x")],
        [hard("h", f"{victim}/secret")],
        [link("s", f"{victim}/secret"), hard("h", "s"), Member("h", "overwritten")],
        [link("l", str(victim)), Member("l", None, mode=0o777, uid=7)],
    ):
        made = build(daemon, "FROM busybox\nADD a.tar /in/", Member("a.tar", archive(*members)))
        assert SECRET not in made.said, made
    assert nothing_is_left(daemon)


def test_another_stage_is_read_within_itself(daemon: Daemon, victim: Path, trap: str) -> None:
    for path in ("/host/secret", "/far/secret", "/real/deeper/secret", "/etc" + str(victim) + "/secret", "/host"):
        made = build(daemon, f"FROM trap AS a\nFROM scratch\nCOPY --from=a {path} /x")
        assert not made.id, made


def test_devices_and_pipes_are_copied_and_never_opened(daemon: Daemon) -> None:
    members = (
        Member("pipe", kind=tarfile.FIFOTYPE),
        Member("zero", kind=tarfile.CHRTYPE, device=(1, 5)),
        Member("disk", kind=tarfile.BLKTYPE, device=(8, 0)),
    )
    made = build(daemon, "FROM scratch\nCOPY pipe zero disk /n/\nADD pipe zero /m/", *members)
    assert tree(daemon, made.id, "m") == {"m": "d0755 0:0", "m/pipe": "p0644 0:0", "m/zero": "c0644 0:0"}
    for kind in (tarfile.FIFOTYPE, tarfile.CHRTYPE):
        assert build(daemon, "", body=archive(Member("Dockerfile", kind=kind, device=(1, 5)))).status in (400, 500)


def test_sizes_that_nothing_can_hold_are_refused(daemon: Daemon) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        info = tarfile.TarInfo("sparse")
        info.pax_headers = {
            "GNU.sparse.major": "1",
            "GNU.sparse.minor": "0",
            "GNU.sparse.name": "sparse",
            "GNU.sparse.realsize": str(1 << 60),
        }
        stored = b"1\n0\n1\n".ljust(512, b"\0") + b"x"
        info.size = len(stored)
        tar.addfile(info, io.BytesIO(stored))
    hole = out.getvalue()
    made = build(daemon, "", body=hole)
    assert made.status == 500 and "no space left on device" in made.error
    made = build(daemon, "FROM scratch\nADD a.tar /", Member("a.tar", hole))
    assert "no space left on device" in made.error
    # The header says a terabyte and nothing follows.
    info = tarfile.TarInfo("large")
    info.size = 1 << 40
    assert build(daemon, "", body=info.tobuf(tarfile.GNU_FORMAT)).error == "unexpected EOF"
    assert build(daemon, "", body=gzip.compress(hole)[:60]).status == 500
    assert nothing_is_left(daemon)


def test_a_deep_tree_and_a_wide_one_are_copied_with_few_descriptors(daemon: Daemon) -> None:
    deep = [Member("/".join(["d"] * depth), None) for depth in range(1, 300)]
    wide = [Member(f"w/{number}", "") for number in range(500)]
    made = build(daemon, "FROM scratch\nCOPY . /all\nCOPY w/1* /some/", *deep, *wide)
    assert made.id, made
    assert len(os.listdir(f"/proc/{daemon.pid}/fd")) < 150


def test_a_whiteout_in_a_context_hides_and_no_more(daemon: Daemon, busybox: str) -> None:
    members = (Member("s", None), Member("s/.wh.passwd", ""), Member("s/c", kind=tarfile.CHRTYPE))
    made = build(daemon, "FROM busybox\nCOPY s /etc", *members)
    assert "etc/passwd" not in tree(daemon, made.id, "etc") and "etc/group" in tree(daemon, made.id, "etc")


def test_what_a_crashed_build_left_goes_at_the_next_start(crashing: Daemon) -> None:
    left = crashing.data_root / "tmp" / "build-1-1" / "context"
    left.mkdir(parents=True)
    (left / "file").write_text("x")
    (left / "link").symlink_to("/etc")
    crashing.kill9()
    crashing.start()
    assert nothing_is_left(crashing) and os.path.isdir("/etc")


def test_builds_at_once_see_each_their_own_context(daemon: Daemon) -> None:
    def one(number: int) -> set[str]:
        made = build(daemon, "FROM scratch\nCOPY . /c", *(Member(f"n{number}-{each}", "x") for each in range(20)))
        return set(tree(daemon, made.id, "c"))

    with ThreadPoolExecutor(4) as pool:
        for number, found in enumerate(pool.map(one, range(8))):
            assert found == {"c", "c/Dockerfile", *(f"c/n{number}-{each}" for each in range(20))}
    assert nothing_is_left(daemon)


def test_an_upload_that_breaks_off_leaves_nothing(daemon: Daemon) -> None:
    sent = archive(Member("Dockerfile", "FROM scratch"), Member("large", b"x" * 2_000_000))
    head = f"POST /build HTTP/1.1\r\nHost: x\r\nContent-Length: {len(sent)}\r\nContent-Type: application/x-tar\r\n\r\n"
    with daemon.connection() as connection:
        connection.socket.sendall(head.encode() + sent[:1_000_000])
        until(lambda: not nothing_is_left(daemon))
    until(lambda: nothing_is_left(daemon))


def until(true: Callable[[], bool]) -> None:
    """Wait for what another thread of the daemon does soon."""
    end = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.01)


NAMES = st.sampled_from(["a", "b", "a/b", "../a", "/a", "a/../b", ".", "..", "a/", ".wh.a", "x" * 300, "Dockerfile"])
KINDS = st.sampled_from([b"0", b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"S", b"x", b"L", b"Z"])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(NAMES, KINDS, NAMES, st.integers(0, 2**21), st.binary(max_size=40)), max_size=6), st.data())
def test_whatever_the_context_is_the_daemon_answers(
    daemon: Daemon, victim: Path, rows: list, data: st.DataObject
) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, kind, target, owner, content in [("Dockerfile", b"0", "", 0, b"FROM scratch\nADD . /x\n"), *rows]:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.uid, info.size = kind, target, owner, len(content)
            tar.addfile(info, io.BytesIO(content))
    whole = out.getvalue()
    cut = whole[: data.draw(st.integers(0, len(whole)))] if data.draw(st.booleans()) else whole
    made = build(daemon, "", body=cut)
    assert made.id or made.error
    assert nothing_is_left(daemon)
