"""The places that a container's root has for the engine's mounts, whatever its image and its own files have there."""

import os
import stat

import pytest

from engine.daemon.containers.contents import changes, initlayer

EMPTY = ("file", 0o755, 0)
ALL = {
    ".dockerenv": EMPTY,
    "dev": ("directory", 0o755),
    "dev/console": EMPTY,
    "dev/pts": ("directory", 0o755),
    "dev/shm": ("directory", 0o755),
    "etc": ("directory", 0o755),
    "etc/hostname": EMPTY,
    "etc/hosts": EMPTY,
    "etc/mtab": ("link", "/proc/mounts"),
    "etc/resolv.conf": EMPTY,
    "proc": ("directory", 0o755),
    "sys": ("directory", 0o755),
}


def tree(root):
    """All that is in a directory, by its path."""
    found = {}
    for above, directories, files in os.walk(root):
        for name in (*directories, *files):
            path = os.path.join(above, name)
            status = os.lstat(path)
            mode = stat.S_IMODE(status.st_mode)
            shown = os.path.relpath(path, root)
            if stat.S_ISLNK(status.st_mode):
                found[shown] = ("link", os.readlink(path))
            elif stat.S_ISDIR(status.st_mode):
                found[shown] = ("directory", mode)
            else:
                found[shown] = ("file", mode, status.st_size)
    return found


def made(place, contents):
    """A directory with these: a mode is a directory's, a text a file's, and one that begins with -> a link's."""
    place.mkdir()
    for name, each in contents.items():
        if isinstance(each, int):
            (place / name).mkdir()
            (place / name).chmod(each)
        elif each.startswith("->"):
            (place / name).symlink_to(each[2:])
        else:
            (place / name).write_text(each)
    return str(place)


@pytest.fixture
def root(tmp_path):
    return made(tmp_path / "root", {})


def test_an_empty_image_gets_all_places(root):
    initlayer.fill(root)
    assert tree(root) == ALL


def test_directories_of_an_image_stay_with_their_modes(root, tmp_path):
    """Those without a place in them are not made at all, since the overlay shows the image's."""
    below = made(tmp_path / "below", {"proc": 0o555, "dev": 0o750, "dev/shm": 0o1777})
    above = made(tmp_path / "above", {"etc": 0o700, "etc/hosts": 0o700, "dev": 0o711})
    initlayer.fill(root, [below, above])
    kept = {"dev": ("directory", 0o711), "etc": ("directory", 0o700)}
    assert tree(root) == {
        name: each for name, each in (ALL | kept).items() if name not in ("proc", "dev/shm", "etc/hosts")
    }


@pytest.mark.parametrize("whole", [True, False])
def test_what_else_an_image_has_in_a_place_is_covered(root, tmp_path, whole):
    """A link leads nowhere else, neither within the image nor out of it."""
    elsewhere = made(tmp_path / "elsewhere", {})
    files = {"etc": f"->{elsewhere}", "dev": "file", "proc": "->/", ".dockerenv": "of an image"}
    if whole:
        initlayer.fill(made(tmp_path / "image", files))
        assert tree(tmp_path / "image") == ALL
    else:
        initlayer.fill(root, [made(tmp_path / "hidden", {"etc": 0o700}), made(tmp_path / "image", files)])
        assert tree(root) == ALL
    assert os.listdir(elsewhere) == []


def test_a_containers_own_files_stay(tmp_path):
    """Those that are brought over from another engine; a link of theirs is not followed."""
    elsewhere = made(tmp_path / "elsewhere", {})
    root = made(tmp_path / "root", {"etc": f"->{elsewhere}", "dev": 0o700, "dev/console": "written"})
    initlayer.fill(root, [made(tmp_path / "image", {"etc": 0o755})])
    assert os.listdir(elsewhere) == []
    assert os.readlink(os.path.join(root, "etc")) == elsewhere
    written = tree(root)["dev/console"]
    kept = {"dev": ("directory", 0o700), "dev/console": written, "etc": ("link", elsewhere)}
    assert tree(root) == {name: each for name, each in (ALL | kept).items() if not name.startswith("etc/")}
    assert written[2] == len("written")


def compared(image, root, own=initlayer.PATHS):
    """The changes of a whole root, as (path, kind)."""
    sides = [os.open(each, os.O_RDONLY | os.O_DIRECTORY) for each in (root, image)]
    return [
        (each.path, each.kind)
        for each in changes._walk(sides[0], changes._Plain(sides[1]), overlay="", whole=True, own=own)
    ]


def test_the_places_are_no_changes_until_they_are_written(tmp_path):
    contents = {"etc": 0o755, "etc/hosts": "of the image", "etc/mtab": "none", "dev": "->/"}
    image, root = made(tmp_path / "image", contents), made(tmp_path / "root", contents)
    initlayer.fill(root)
    assert compared(image, root) == []
    (tmp_path / "root/.dockerenv").write_text("written")
    (tmp_path / "root/etc/mtab").unlink()
    (tmp_path / "root/etc/mtab").symlink_to("/proc/mountx")
    (tmp_path / "root/etc").chmod(0o700)
    assert compared(image, root) == [
        ("/.dockerenv", changes.MODIFIED),
        ("/etc", changes.MODIFIED),
        ("/etc/mtab", changes.MODIFIED),
    ]


def test_what_builds_leave_is_what_the_image_lacked(tmp_path):
    """As with BuildKit: the directories on which a command's own file systems were mounted, and nothing in them."""
    image, root = made(tmp_path / "image", {"sys": 0o755}), made(tmp_path / "root", {"sys": 0o755})
    initlayer.fill(root)
    assert compared(image, root, initlayer.FILES) == [("/dev", changes.ADDED), ("/proc", changes.ADDED)]


def test_a_place_that_is_gone_was_deleted(tmp_path):
    """But in the root of an older release, which had not made all of them."""
    image, root = made(tmp_path / "image", {"etc": 0o755}), made(tmp_path / "root", {"etc": 0o755})
    assert compared(image, root) == []
    initlayer.fill(root)
    (tmp_path / "root/etc/mtab").unlink()
    (tmp_path / "root/.dockerenv").unlink()
    gone = [("/.dockerenv", changes.DELETED), ("/etc", changes.MODIFIED), ("/etc/mtab", changes.DELETED)]
    assert compared(image, root) == gone


def test_the_places_take_no_room(root):
    initlayer.fill(root)
    status = [os.stat(os.path.join(root, name)) for name, each in ALL.items() if each[0] == "directory"]
    assert initlayer.room(root) == sum(each.st_blocks * 512 for each in status)
