"""Layers unpacked with the help of C, and by Python alone: the same files, the same result, the same refusal."""

import gc
import io
import os
import random
import resource
import stat
import tarfile

import pytest

import _muxer
from engine.daemon.images.layers import unpack as layers
from engine.daemon.tar import trees
from engine.errors import EngineError, Invalid
from tests.harness.amounts import examples
from tests.harness.descriptors import all_open
from tests.unit.images import hostile
from tests.unit.images.made import archive, directory, link, member, symlink

pytestmark = pytest.mark.skipif(not _muxer.built(), reason="the C muxer is not built")

EXAMPLES = examples("ENGINE_TEST_EXAMPLES", 15, 4)
NEW = 1_600_000_000  # times after this one are those of the test, and say nothing
PARTS = ("a", "b", "l", ".", "", "..", ".wh.a", ".wh..wh..opq", "n" * 90)
FORMS = (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)
KINDS = (*(tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE) * 3, tarfile.AREGTYPE, tarfile.FIFOTYPE)


class Pieces(io.RawIOBase):
    """A stream that comes in pieces of a size."""

    def __init__(self, data, size):
        self._file, self._size = io.BytesIO(data), size

    def readable(self):
        return True

    def readinto(self, buffer):
        data = self._file.read(min(len(buffer), self._size))
        buffer[: len(data)] = data
        return len(data)


def described(top):
    """Each entry below a directory: what it is, whose, of when, its contents, and which entries are one file."""
    found, numbers = {}, {}
    for above, directories, files in os.walk(top):
        directories.sort()
        for name in sorted((*directories, *files)):
            path = os.path.join(above, name)
            status = os.lstat(path)
            when = status.st_mtime_ns if status.st_mtime < NEW else None
            first = None if stat.S_ISDIR(status.st_mode) else numbers.setdefault(status.st_ino, path)
            text = os.readlink(path) if stat.S_ISLNK(status.st_mode) else None
            if stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    text = file.read()
            extended = {key: os.getxattr(path, key, follow_symlinks=False) for key in _attributes(path)}
            shown = (
                status.st_mode,
                status.st_uid,
                status.st_gid,
                status.st_rdev,
                when,
                first and os.path.relpath(first, top),
                text,
                extended,
            )
            found[os.path.relpath(path, top)] = shown
    return found


def _attributes(path):
    return [key for key in os.listxattr(path, follow_symlinks=False) if not key.startswith("security.selinux")]


@pytest.fixture(autouse=True)
def _collected():
    """Descriptors that an earlier test left to the search for garbage are not closed while this one counts its own."""
    gc.collect()


def unpacked(top, data, size, way, overlay):
    """What comes of it one way: the result or the refusal, and the tree."""
    top.mkdir()
    fd = os.open(top, os.O_RDONLY)
    before = all_open()
    trees.choose(way)
    try:
        told = layers.unpack(io.BufferedReader(Pieces(data, size), 4096), fd, overlay=overlay)
    except EngineError as error:
        # What is left of a layer that was refused is removed; directories have no times yet.
        return (type(error), str(error)), {path: shown[:4] + shown[5:] for path, shown in described(top).items()}
    finally:
        trees.choose("python")
        assert not all_open() - before
        os.close(fd)
    return told, described(top)


def compare(above, data, size=1 << 20, overlay=None):
    overlay = os.geteuid() == 0 if overlay is None else overlay
    above.mkdir(exist_ok=True)
    python, c = (unpacked(above / way, data, size, way, overlay) for way in ("python", "c"))
    assert c == python
    return c


class Chosen(random.Random):
    """A seed decides: what hypothesis draws one by one takes longer than all else."""

    def number(self, low, high):
        return self.randint(low, high)

    def data(self, most):
        return self.randbytes(self.randint(0, most))


@pytest.mark.parametrize("seed", range(8))
def test_hostile_layers(tmp_path, seed):
    for number in range(EXAMPLES):
        chosen = Chosen(f"{seed} {number}")
        compare(tmp_path / str(number), hostile.layer(chosen), chosen.number(100, 5000))


def one(chosen):
    """A member of some name that others may have too, or be above of."""
    names = ["/".join(chosen.choice(PARTS) for _ in range(chosen.number(1, 3))) for _ in range(2)]
    kind = chosen.choice(KINDS)
    fields = {"type": kind, "linkname": names[1], "mode": chosen.choice((0o644, 0o755, 0o4711, 0o1777))}
    fields["mtime"] = chosen.choice((0, 1, 1_000_000_000, 1_000_000_000.5))
    if os.geteuid() == 0:
        fields |= {"uid": chosen.choice((0, 7, 1 << 20)), "gid": chosen.choice((0, 8, 1 << 22))}
    return member(names[0], chosen.data(1500) * chosen.number(0, 9) if kind in (b"0", b"\0") else b"", **fields)


@pytest.mark.parametrize("seed", range(8))
def test_members_that_meet_each_other(tmp_path, seed):
    for number in range(2 * EXAMPLES):
        chosen = Chosen(f"meeting {seed} {number}")
        members = [one(chosen) for _ in range(chosen.number(1, 12))]
        try:
            packed = archive(*members, form=chosen.choice(FORMS))
        except ValueError:  # the oldest form has not the room for it
            packed = archive(*members)
        overlay = os.geteuid() == 0 and number % 2 == 1
        compare(tmp_path / str(number), hostile.damaged(chosen, packed), chosen.number(1, 3000), overlay)


def test_what_is_replaced_leads_no_later_member_elsewhere(tmp_path):
    members = [directory("d"), member("d/a", b"1"), symlink("d", "e"), directory("e"), member("d/b", b"2")]
    _, tree = compare(tmp_path, archive(*members, form=tarfile.USTAR_FORMAT))
    assert {"e/b", "d", "e"} == set(tree)


def test_a_link_that_is_replaced_leads_later_members_to_its_new_target(tmp_path):
    members = [directory("d"), directory("e"), symlink("l", "d"), member("l/a", b"1"), symlink("l", "e")]
    _, tree = compare(tmp_path, archive(*members, member("l/b", b"2"), form=tarfile.USTAR_FORMAT))
    assert {"d/a", "e/b"} < set(tree)


def test_a_directory_without_a_header_that_is_removed_and_gets_one(tmp_path):
    members = [member("a/b/f", b""), member("a", b""), directory("a"), directory("a/b"), member("c/f", b"")]
    told, _ = compare(tmp_path, archive(*members, form=tarfile.USTAR_FORMAT))
    assert told.implied == ("c",)


def test_a_hard_link_to_a_whiteout_that_is_kept_as_a_file(tmp_path):
    members = [member("d/.wh.a", b""), directory("e"), link("e/b", "d/.wh.a")]
    (refused, _), _ = compare(tmp_path, archive(*members, form=tarfile.USTAR_FORMAT), overlay=False)
    assert refused is Invalid


def test_a_file_whose_name_ends_as_a_directorys(tmp_path):
    _, tree = compare(tmp_path, archive(member("a/", b""), member("b", b""), form=tarfile.USTAR_FORMAT))
    assert stat.S_ISDIR(tree["a"][0]) and len(tree) == 2


@pytest.mark.parametrize(
    ("field", "at"), [(b"777777777777", 136), (b"   17 \0junk", 136), (b"  644  ", 100), (b"8", 108)]
)
def test_numbers_in_every_form(tmp_path, field, at):
    whole = bytearray(archive(member("a", b"text", mtime=5), member("b", b""), form=tarfile.USTAR_FORMAT))
    whole[at : at + len(field)] = field
    hostile.summed(whole, 0)
    compare(tmp_path, bytes(whole))


def test_a_directory_that_comes_again_after_it_was_removed_has_the_later_time(tmp_path):
    attributed = member("d/x", type=tarfile.DIRTYPE, mtime=5, mode=0o755, pax_headers={"SCHILY.xattr.user.a": "1"})
    again = member("d/x", type=tarfile.DIRTYPE, mtime=9, mode=0o700)
    members = [directory("d"), attributed, member("d", b""), directory("d"), again]
    _, tree = compare(tmp_path, archive(*members))
    assert tree["d/x"][4] == 9_000_000_000


def test_more_directories_than_are_told_at_once_and_are_open(tmp_path):
    members = [directory(f"{'n' * 80}{number}") for number in range(500)]
    members += [member(f"{'n' * 80}{number}/f", b"x" * number) for number in range(500)]
    members += [link(f"{'n' * 80}{number}/g", f"{'n' * 80}{499 - number}/f") for number in range(500)]
    told, tree = compare(tmp_path, archive(*members, form=tarfile.USTAR_FORMAT), 700)
    assert len(tree) == 1500 and told.implied == ()
    assert all(shown[4] == 0 for shown in tree.values())


@pytest.mark.parametrize("end", [0, 100, 512, 700, 1024, 1500, 1535, 1536])
def test_a_layer_that_is_cut_off(tmp_path, end):
    compare(tmp_path, archive(member("a", b"x" * 1000), form=tarfile.USTAR_FORMAT)[:end], 300)


def test_a_failure_is_told_of_the_member_that_met_it(tmp_path):
    """The limit of a file's size stands for a full disk."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limit[1]))
    try:
        members = [member("small", b"x"), member("large", b"x" * 50_000), member("later", b"")]
        (_, words), tree = compare(tmp_path, archive(*members, form=tarfile.USTAR_FORMAT))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert words == "failed to unpack 'large': file too large" and "later" not in tree
