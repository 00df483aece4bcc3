"""A client's directory is mirrored, only what changed is asked for, and no list leads out of the mirror."""

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.daemon.builder.copying.remembered import Remembered
from engine.daemon.builder.mirrors import Mirror
from engine.daemon.buildkit import filesync, knownlist, mirror
from engine.daemon.buildkit.filesync import Wanted
from engine.daemon.buildkit.messages import fsutil
from engine.daemon.buildkit.messages.fsutil import Packet, Stat
from engine.errors import EngineError, Invalid, Unavailable
from engine.protocols import protobuf
from tests.harness.amounts import amount
from tests.unit.buildkit.sender import Sender, go_mode, session, stats

NAMES = st.sampled_from(["a", "b", "c-d", "ü x", "a/b", "a/c", "b/a/x", "b/y", "c-d/e/f/g"])
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("write"), NAMES, st.binary(max_size=200), st.sampled_from([0o644, 0o755, 0o4711, 0])),
        st.tuples(st.just("large"), NAMES, st.integers(32_000, 70_000)),
        st.tuples(st.just("remove"), NAMES),
        st.tuples(st.just("link"), NAMES, st.sampled_from(["a", "../b", "/etc/passwd", "nowhere"])),
        st.tuples(st.just("name"), NAMES, NAMES),
        st.tuples(st.just("pipe"), NAMES),
        st.tuples(st.just("mode"), NAMES, st.sampled_from([0o700, 0o755, 0o1777])),
    ),
    max_size=8,
)


def change(root: Path, what: str, name: str, *how: object) -> None:
    """One change of the client's directory; what cannot be is left out."""
    path = root / name
    with contextlib.suppress(OSError):
        if what == "mode":
            if path.is_dir() and not path.is_symlink():
                path.chmod(how[0])
            return
        if path.is_symlink() or not path.is_dir():
            path.unlink(missing_ok=True)
        else:
            shutil.rmtree(path)
        if what == "remove":
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if what in ("write", "large"):
            path.write_bytes(how[0] if what == "write" else os.urandom(how[0]))
            path.chmod(how[1] if what == "write" else 0o600)
        elif what == "link":
            path.symlink_to(how[0])
        elif what == "name":
            if (root / how[0]).is_file() and not (root / how[0]).is_symlink():
                os.link(root / how[0], path)
        else:
            os.mkfifo(path)


def seen(root: Path) -> dict[str, object]:
    """All that a directory has, as far as a build can tell."""
    found: dict[str, object] = {}
    inodes: dict[int, str] = {}
    for entry in stats(root):
        path = root / entry["path"]
        one = os.lstat(path)
        data = path.read_bytes() if stat.S_ISREG(one.st_mode) else None
        link = os.readlink(path) if stat.S_ISLNK(one.st_mode) else inodes.setdefault(one.st_ino, entry["path"])
        found[entry["path"]] = oct(one.st_mode), one.st_mtime_ns, data, link
    return found


@contextlib.contextmanager
def directories() -> Iterator[tuple[Path, Path, Path]]:
    """A client's directory, a mirror, and a place for a socket."""
    with tempfile.TemporaryDirectory() as made:
        for name in ("theirs", "ours"):
            (Path(made) / name).mkdir()
        yield Path(made) / "theirs", Path(made) / "ours", Path(made) / "s"


def receive(sender: Sender, ours: Path, place: Path, wanted: Wanted | None = None) -> list[int]:
    """Mirror it; the progress that was told."""
    told: list[int] = []
    root = os.open(ours, os.O_RDONLY | os.O_DIRECTORY)
    kept = Mirror(str(ours.parent), root, "a source")
    try:
        with session(sender, place) as link:
            filesync.receive(link, wanted or Wanted("context"), kept, told.append)
    finally:
        os.close(root)
    return told


@settings(max_examples=amount(60, 15), deadline=None)
@given(rounds=st.lists(CHANGES, min_size=1, max_size=3))
def test_a_mirror_is_the_same_and_only_what_changed_travels(rounds: list[list[tuple[object, ...]]]) -> None:
    with directories() as (theirs, ours, place):
        for number, changes in enumerate(rounds):
            before = seen(ours)
            for each in changes:
                change(theirs, *each)
            sender = Sender(theirs)
            told = receive(sender, ours, Path(f"{place}{number}"))
            after = seen(ours)
            assert after == seen(theirs)
            asked = set(sender.requested)
            assert len(asked) == len(sender.requested)
            unchanged = {path for path, what in after.items() if before.get(path, ())[:3] == what[:3]}
            linked = {path for path in unchanged if os.lstat(ours / path).st_nlink > 1}
            assert asked & (unchanged - linked) == set()
            assert told[-1] == sum(len(after[path][2]) for path in asked)
            assert not sender.refused


def test_thousands_of_files_of_which_one_changes() -> None:
    with directories() as (theirs, ours, place):
        for number in range(amount(5000, 1000)):
            (theirs / f"d{number % 100}").mkdir(exist_ok=True)
            (theirs / f"d{number % 100}" / str(number)).write_text(str(number))
        receive(Sender(theirs), ours, place)
        (theirs / "d7" / "107").write_text("another")
        sender = Sender(theirs)
        receive(sender, ours, Path(f"{place}2"))
        assert sender.requested == ["d7/107"]
        assert (ours / "d7" / "107").read_text() == "another"


def test_the_same_list_again_is_known_and_the_mirror_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that begins the same and goes on otherwise is taken whole, and then it is the known one."""
    with directories() as (theirs, ours, place):
        for number in range(300):
            (theirs / str(number)).write_text(str(number))
        receive(Sender(theirs), ours, Path(f"{place}1"))
        settled: list[int] = []
        settle = mirror.settle
        monkeypatch.setattr(mirror, "settle", lambda root, listing: settled.append(root) or settle(root, listing))
        assert receive(Sender(theirs), ours, Path(f"{place}2")) == [0] and not settled
        (theirs / "99").write_text("another")
        sender = Sender(theirs)
        receive(sender, ours, Path(f"{place}3"))
        assert sender.requested == ["99"] and len(settled) == 1 and seen(ours) == seen(theirs)
        (theirs / "more").write_text("more")  # the known list is the begin of the new one
        receive(Sender(theirs), ours, Path(f"{place}4"))
        assert len(settled) == 2 and seen(ours) == seen(theirs)
        (theirs / "more").unlink()
        receive(Sender(theirs), ours, Path(f"{place}5"))
        assert len(settled) == 3 and seen(ours) == seen(theirs)
        receive(Sender(theirs), ours, Path(f"{place}6"))
        assert len(settled) == 3


def test_a_list_is_not_known_after_a_failure_or_of_another_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    with directories() as (theirs, ours, place):
        (theirs / "a").write_text("a")
        kept = ours.parent / "list"
        receive(Sender(theirs), ours, Path(f"{place}1"))
        assert kept.exists()
        (theirs / "a").write_text("other")
        with pytest.raises(Invalid):
            receive(Sender(theirs, data=lambda data: data + b"x"), ours, Path(f"{place}2"))
        assert not kept.exists()
        receive(Sender(theirs), ours, Path(f"{place}3"))
        (ours / "a").unlink()  # as a loss of power may leave it
        monkeypatch.setattr(knownlist, "boot_id", lambda: "another")
        receive(Sender(theirs), ours, Path(f"{place}4"))
        assert seen(ours) == seen(theirs)


def test_the_client_is_told_what_is_wanted() -> None:
    with directories() as (theirs, ours, place):
        sender = Sender(theirs)
        receive(sender, ours, place, Wanted("context", ("Dockerfile", "x y"), ("*.o", "ä b")))
        assert sender.asked["dir-name"] == ["context"]
        assert sender.asked["followpaths"] == ["Dockerfile", "x y"]
        assert sender.asked["exclude-patterns"] == ["%2A.o", "%C3%A4+b"]
        assert sender.asked["exclude-patterns-encoded"] == ["1"]


@given(
    number=st.integers(0, 1 << 32),
    data=st.binary(max_size=300),
    changed=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=2),
    cut=st.integers(0, 3),
)
def test_a_packet_of_data_is_read_as_protobuf_is(
    number: int, data: bytes, changed: list[tuple[int, int]], cut: int
) -> None:
    """Whatever else it is is left to the decoder of all messages."""
    whole = protobuf.encode(Packet, {"type": fsutil.DATA, "ID": number, "data": data})
    found = fsutil.data_of(whole)
    assert found is None if not data or number >= 1 << 28 else found == (number, data)
    other = bytearray(whole)
    for place, byte in changed:
        if place < len(other):
            other[place] = byte
    made = bytes(other[: len(other) - cut])
    found = fsutil.data_of(made)
    if found is not None:
        decoded = protobuf.decode(Packet, made)
        assert (decoded["type"], decoded["ID"], decoded["data"]) == (fsutil.DATA, *found)


def test_what_has_come_is_not_read_again() -> None:
    """Its digests were made on the way."""
    with directories() as (theirs, ours, place):
        (theirs / "d").mkdir()
        for name, size in (("a", 0), ("b", 10), ("d/c", 1_000_000)):
            (theirs / name).write_bytes(os.urandom(size))
        receive(Sender(theirs), ours, place)
        known = Remembered(str(ours.parent / "digests"))
        for name in ("a", "b", "d/c"):
            assert known.find(os.stat(ours / name)) == hashlib.sha256((theirs / name).read_bytes()).digest()


def test_of_a_file_that_comes_byte_by_byte_little_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte in a packet of its own takes a hundred times as much."""
    held: list[int] = []
    write = filesync._Coming.write

    def watched(file: filesync._Coming) -> None:
        held.append(len(file.held))
        write(file)

    monkeypatch.setattr(filesync._Coming, "write", watched)
    monkeypatch.setattr("tests.unit.buildkit.sender.PIECE", 1)
    with directories() as (theirs, ours, place):
        (theirs / "slow").write_bytes(os.urandom(1000))
        receive(Sender(theirs), ours, place)
        assert (ours / "slow").read_bytes() == (theirs / "slow").read_bytes()
    assert sum(held) == 1000 and max(held) <= 64


FILE, DIRECTORY, LINK = go_mode(stat.S_IFREG | 0o644), go_mode(stat.S_IFDIR | 0o755), go_mode(stat.S_IFLNK | 0o777)


def one(path: str, mode: int = FILE, **more: object) -> Stat:
    """An entry of a hostile list."""
    return {"path": path, "mode": mode, "size": 0, "modTime": 0, "linkname": "", **more}


HOSTILE = {
    "up": [one("../x")],
    "up in the middle": [one("a", DIRECTORY), one("a/../../x")],
    "absolute": [one("/etc/x")],
    "nothing": [one("")],
    "a dot": [one(".")],
    "a nul": [one("a\0b")],
    "long": [one("x" * 300)],
    "twice": [one("a"), one("a")],
    "without its parent": [one("a/b")],
    "below a link": [one("a", LINK, linkname="/etc"), one("a/x")],
    "below a file": [one("a"), one("a/x")],
    "another name of nothing": [one("a", linkname="/etc/passwd")],
    "another name of a link": [one("a", LINK, linkname="/etc/passwd"), one("b", linkname="a")],
    "a link to nowhere": [one("a", LINK)],
    "a device": [one("a", 1 << 26)],
    "a socket": [one("a", 1 << 24)],
    "an unknown kind": [one("a", 1 << 19)],
    "a size below zero": [one("a", size=-1)],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_list_is_refused_and_leaves_nothing(name: str) -> None:
    with directories() as (theirs, ours, place):
        sender = Sender(theirs, listed=lambda _: HOSTILE[name])
        with pytest.raises(Invalid):
            receive(sender, ours, place)
        assert sender.refused
        assert os.listdir(ours) == []
        assert set(os.listdir(theirs.parent)) <= {"ours", "s", "size", "theirs"}


def test_what_is_in_the_mirror_already_leads_nowhere(tmp_path: Path) -> None:
    """A link that stood where the list has a directory is removed, not followed."""
    with directories() as (theirs, ours, place):
        (tmp_path / "kept").write_text("kept")
        (theirs / "a").mkdir()
        (theirs / "a" / "kept").write_text("new")
        (ours / "a").symlink_to(tmp_path)
        receive(Sender(theirs), ours, place)
        assert (tmp_path / "kept").read_text() == "kept"
        assert (ours / "a" / "kept").read_text() == "new"


@pytest.mark.parametrize("changed", [lambda data: data + b"x", lambda data: data[:-1], lambda data: b""])
def test_a_file_that_changes_meanwhile_ends_in_words(changed: Callable[[bytes], bytes]) -> None:
    with directories() as (theirs, ours, place):
        (theirs / "a").write_text("hello")
        with pytest.raises(Invalid, match="it has changed while it was sent"):
            receive(Sender(theirs, data=changed), ours, place)
        receive(Sender(theirs), ours, Path(f"{place}2"))
        assert (ours / "a").read_text() == "hello"


def weight(ours: Path) -> int:
    """What is noted of the mirror."""
    return int((ours.parent / "facts").read_text().split(" ")[0])


@pytest.mark.parametrize(("size", "words"), [(1 << 62, "do not fit"), (1 << 20, "it has changed")])
def test_a_mirror_weighs_what_has_come_and_not_what_is_said(size: int, words: str) -> None:
    """A lie would have the mirrors of all others removed, as those were not used for longer."""

    def lying(directory: Path) -> list[Stat]:
        return [{**entry, "size": size if entry["path"] == "lie" else entry["size"]} for entry in stats(directory)]

    with directories() as (theirs, ours, place):
        (theirs / "honest").write_text("x" * 1000)
        receive(Sender(theirs), ours, place)
        before = weight(ours)
        (theirs / "lie").write_text("y" * 1000)
        with pytest.raises(EngineError, match=words):
            receive(Sender(theirs, listed=lying), ours, Path(f"{place}2"))
        assert before <= weight(ours) <= before + 10_000
        receive(Sender(theirs), ours, Path(f"{place}3"))
        assert weight(ours) > before + 1000


def test_a_mirror_weighs_more_while_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon may be killed at any time, and a file may be as large as the disk."""
    monkeypatch.setattr(filesync, "_WEIGHED_EACH", 40_000)
    monkeypatch.setattr(filesync, "_TOGETHER", 1)
    with directories() as (theirs, ours, place):
        (theirs / "large").write_bytes(bytes(200_000))
        weights: list[int] = []
        sender = Sender(theirs, data=lambda data: data[:-1])
        with pytest.raises(Invalid), monkeypatch.context() as patched:
            patched.setattr(Mirror, "weighs", lambda _self, size, used=True: weights.append(size))
            receive(sender, ours, place)
        assert weights == sorted(weights) and len(weights) > 4 and weights[-1] == 4096 + 199_999


def test_a_client_that_never_stops_saying_that_it_has_ended() -> None:
    class Talkative(Sender):
        def serve(self, packets: Iterator[fsutil.Packet], context: object) -> Iterator[fsutil.Packet]:
            yield from super().serve(packets, context)  # type: ignore[arg-type]
            for _ in range(100_000):
                yield {"type": fsutil.FINISH}

    with directories() as (theirs, ours, place), pytest.raises(Invalid, match="nobody has asked for"):
        receive(Talkative(theirs), ours, place)


def test_a_client_without_that_directory() -> None:
    def refuse(_: Path) -> list[Stat]:
        raise OSError("no such directory")

    with directories() as (theirs, ours, place), pytest.raises(EngineError) as caught:
        receive(Sender(theirs, listed=refuse), ours, place)
    assert isinstance(caught.value, Unavailable)


def test_a_list_takes_few_bytes_an_entry_whatever_its_characters() -> None:
    """One odd character made Python's text of a path four times as large: a list of 400,000 took 360 MB."""
    count, length = 20_000, 140

    def listed(listing: mirror.Listing) -> None:
        for number in range(count):
            listing.add(one(f"{number:06d}\U0001f600{'x' * length}", size=10**12 + number, modTime=10**18 + number))

    tracemalloc.start()
    try:
        listing = mirror.Listing()
        listed(listing)
        took, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert took / count < length + 200
    with pytest.raises(Invalid, match="too many files"):
        for number in range(20_000):
            listing.add(one(f"link{number}", LINK, linkname="z" * 4000))


def test_further_names_of_files_are_made_in_the_order_of_the_list(tmp_path: Path) -> None:
    """One may be a name of another one."""
    listing = mirror.Listing()
    for said in (one("d", DIRECTORY), one("d/a"), one("d/b", linkname="d/a"), one("d/c", linkname="d/b")):
        listing.add(said)
    root = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        missing = mirror.settle(root, listing)
        for entry in missing.files:
            mirror.close(mirror.create(root, entry), entry)
        mirror.finish(root, listing)
    finally:
        os.close(root)
    assert missing.count == 1 and (tmp_path / "d/a").stat().st_nlink == 3
    assert (tmp_path / "d/c").samefile(tmp_path / "d/a")
