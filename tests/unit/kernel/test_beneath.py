"""Opening beneath a root: by the kernel, and by the walk that old kernels need; both must agree."""

import errno
import os
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.kernel import beneath, syscalls

NAMES = ("a", "b", "c")


@pytest.fixture(params=["kernel", "walk"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which of the two resolves."""
    chosen = beneath._open_by_walk if request.param == "walk" else beneath._open_by_kernel
    monkeypatch.setattr(beneath, "_open", chosen)
    return request.param


@pytest.fixture
def root(tmp_path: Path) -> Generator[int]:
    """A root with links of every kind, next to a secret outside of it."""
    (tmp_path / "secret").write_text("outside")
    top = tmp_path / "root"
    (top / "dir/deep").mkdir(parents=True)
    (top / "dir/file").write_text("inside")
    for name, target in {
        "absolute": "/dir/file",
        "relative": "dir/file",
        "up": "../../../../dir",
        "out": "../secret",
        "loop": "loop",
        "dangling": "/not/yet",
    }.items():
        (top / name).symlink_to(target)
    fd = os.open(top, os.O_PATH)
    yield fd
    os.close(fd)


@pytest.mark.parametrize(
    "path", ["dir/file", "/dir/file", "absolute", "relative", "up/file", "dir/../../..//dir/./file"]
)
def test_links_and_dots_stay_inside(way: str, root: int, path: str) -> None:
    fd = beneath.open_beneath(root, path, os.O_RDONLY)
    assert os.read(fd, 100) == b"inside" and not os.get_inheritable(fd)
    os.close(fd)


@pytest.mark.parametrize(
    ("path", "flags", "number"),
    [
        ("out", os.O_RDONLY, errno.ENOENT),
        ("../secret", os.O_RDONLY, errno.ENOENT),
        ("loop", os.O_RDONLY, errno.ELOOP),
        ("relative", os.O_RDONLY | os.O_NOFOLLOW, errno.ELOOP),
        ("dir/file/x", os.O_RDONLY, errno.ENOTDIR),
        ("dir/file/", os.O_RDONLY, errno.ENOTDIR),
        ("nothing", os.O_RDONLY, errno.ENOENT),
    ],
)
def test_what_cannot_be_opened_says_why(way: str, root: int, path: str, flags: int, number: int) -> None:
    with pytest.raises(OSError) as caught:
        beneath.open_beneath(root, path, flags)
    assert caught.value.errno == number


@pytest.mark.parametrize("path", ["relative", "up/file", "loop", "absolute"])
def test_no_symlinks_means_none_at_all(way: str, root: int, path: str) -> None:
    with pytest.raises(OSError) as caught:
        beneath.open_beneath(root, path, os.O_PATH, no_symlinks=True)
    assert caught.value.errno == errno.ELOOP


def test_no_symlinks_does_not_go_above_the_root(way: str, root: int) -> None:
    with pytest.raises(OSError) as caught:
        beneath.open_beneath(root, "../secret", os.O_RDONLY, no_symlinks=True)
    assert caught.value.errno == errno.EXDEV


@pytest.mark.parametrize("path", ["out", "absolute", "up/file", "../root/dir/file", "dir/../../root/dir"])
def test_a_part_does_not_lead_out_not_even_for_a_moment(way: str, root: int, path: str) -> None:
    with pytest.raises(OSError) as caught:
        beneath.open_within(root, path, os.O_PATH)
    assert caught.value.errno == errno.EXDEV


@pytest.mark.parametrize("path", ["relative", "dir/file", "dir/deep/../file"])
def test_links_within_a_part_are_followed(way: str, root: int, path: str) -> None:
    fd = beneath.open_within(root, path, os.O_RDONLY)
    assert os.read(fd, 100) == b"inside"
    os.close(fd)


def test_a_file_is_created_inside_even_through_a_link_out(way: str, root: int, tmp_path: Path) -> None:
    os.close(beneath.open_beneath(root, "out", os.O_WRONLY | os.O_CREAT, 0o600))
    assert (tmp_path / "root/secret").exists() and (tmp_path / "secret").read_text() == "outside"


def test_directories_are_made_inside_also_for_a_dangling_link(way: str, root: int, tmp_path: Path) -> None:
    for path in ("/new/er/est", "dangling/more", "up/deep/x", "out/y"):
        fd = beneath.make_directories(root, path, 0o750)
        assert beneath.is_directory(fd)
        os.close(fd)
    found = {str(one.relative_to(tmp_path)) for one in tmp_path.rglob("*") if one.is_dir() and not one.is_symlink()}
    assert {"root/new/er/est", "root/not/yet/more", "root/dir/deep/x", "root/secret/y"} <= found
    assert (tmp_path / "secret").read_text() == "outside"


@pytest.mark.parametrize("name", ["fd", "root", "cwd", "exe"])
def test_the_text_of_a_magic_link_is_no_path_beneath_the_root(root: int, tmp_path: Path, name: str) -> None:
    """It is a path of the host's. A link that looks alike, and one of /proc that is none, are ordinary ones."""
    own = os.open("/proc/self", os.O_PATH)
    try:
        with pytest.raises(OSError) as refused:
            beneath._link_at(own, f"fd/{root}" if name == "fd" else name)
    finally:
        os.close(own)
    assert refused.value.errno == errno.ELOOP
    os.symlink("/proc/self/fd/9", tmp_path / "root/fd")
    assert beneath._link_at(root, "fd") == "/proc/self/fd/9"
    assert beneath._link_at(root, "dir") is None and beneath._link_at(root, "absent") is None
    proc = os.open("/proc", os.O_PATH)
    try:
        assert beneath._link_at(proc, "self") == str(os.getpid())
    finally:
        os.close(proc)


def test_a_file_in_the_way_of_a_directory_is_an_error(way: str, root: int) -> None:
    with pytest.raises(NotADirectoryError):
        beneath.make_directories(root, "dir/file/x")


def test_make_file_makes_an_empty_file_once(way: str, root: int, tmp_path: Path) -> None:
    for _ in range(2):
        os.close(beneath.make_file(root, "etc/new"))
    os.close(beneath.make_file(root, "dir/file"))
    assert (tmp_path / "root/etc/new").read_text() == "" and (tmp_path / "root/dir/file").read_text() == "inside"


paths = st.lists(st.sampled_from((*NAMES, "..", ".", "")), min_size=1, max_size=6).map("/".join)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(links=st.lists(st.tuples(paths, paths), max_size=5), absolute=st.booleans(), wanted=paths)
def test_both_ways_open_the_same_file_or_fail_alike(
    tmp_path_factory: pytest.TempPathFactory, links: list, absolute: bool, wanted: str
) -> None:
    top = tmp_path_factory.mktemp("tree")
    for name in NAMES:
        (top / name / name).mkdir(parents=True)
    root = os.open(top, os.O_PATH)
    for where, target in links:
        place = os.path.normpath(f"/{where}").strip("/")
        parent = os.path.dirname(f"{top}/{place}")
        inside = os.path.isdir(parent) and str(Path(parent).resolve()).startswith(str(top))
        if place and target and inside and not os.path.lexists(f"{top}/{place}"):
            os.symlink(f"/{target}" if absolute else target, f"{top}/{place}")

    def outcome(open_it, resolve: int) -> object:
        try:
            fd = open_it(root, wanted.strip("/") or ".", os.O_PATH, 0, resolve)
        except OSError as error:
            return error.errno
        found = os.fstat(fd)
        os.close(fd)
        return found.st_dev, found.st_ino

    for resolve in (syscalls.RESOLVE_IN_ROOT, syscalls.RESOLVE_BENEATH):
        assert outcome(beneath._open_by_walk, resolve) == outcome(beneath._open_by_kernel, resolve)
    os.close(root)


@pytest.mark.parametrize("target", ["/not/yet/file", "not/yet/file", "../../not/yet/file", "/dir/deep/new", "other"])
def test_make_file_makes_what_a_dangling_link_names(way: str, root: int, tmp_path: Path, target: str) -> None:
    """Images have such links: /etc/resolv.conf into a /run that is empty."""
    (tmp_path / "root/etc").mkdir()
    (tmp_path / "root/etc/resolv.conf").symlink_to(target)
    (tmp_path / "root/etc/other").symlink_to("/last/of/all")
    made = beneath.make_file(root, "/etc/resolv.conf")
    assert not beneath.is_directory(made)
    os.close(made)
    os.close(beneath.open_beneath(root, "/etc/resolv.conf", os.O_PATH))
    assert sorted(os.listdir(tmp_path)) == ["root", "secret"]


def test_make_file_ends_where_links_lead_round(way: str, root: int) -> None:
    with pytest.raises(OSError, match="symbolic links"):
        beneath.make_file(root, "/loop")


def test_a_host_that_is_never_quiet_keeps_nobody_from_opening(
    root: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """openat2(2) says EAGAIN for `..` while anybody renames or mounts: a path with many may never get through."""
    asked = []

    def busy(*arguments: object) -> int:
        asked.append(arguments)
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(beneath.syscalls, "openat2", busy)
    os.mkdir("deep", dir_fd=root)
    opened = beneath._open_by_kernel(root, "deep/../../../deep", os.O_RDONLY, 0, syscalls.RESOLVE_IN_ROOT)
    try:
        assert os.path.samestat(os.fstat(opened), os.stat("deep", dir_fd=root))
    finally:
        os.close(opened)
    assert len(asked) == beneath._RETRIES


@pytest.mark.parametrize(
    ("path", "end"),
    [
        ("", ""),
        ("/a/./b//", "a/b"),
        ("../../a", "a"),
        ("here/x", "there/x"),
        ("a/up/x", "x"),
        ("a/top", "b"),
        ("here/../x", "x"),
        ("not/there/at/all", "not/there/at/all"),
    ],
)
def test_links_are_followed_by_what_they_say(path: str, end: str) -> None:
    links = {"here": "there", "a/up": "../../..", "a/top": "/b"}
    assert beneath.followed(path, links.get) == end


def test_a_path_that_goes_in_and_out_for_ever_is_too_long() -> None:
    looked: list[str] = []
    with pytest.raises(OSError) as failure:
        beneath.followed("a/../" * 10_000, looked.append)
    assert failure.value.errno == errno.ENAMETOOLONG and not looked


def test_links_that_lead_round_are_followed_for_a_while_only() -> None:
    with pytest.raises(OSError) as failure:
        beneath.followed("a", {"a": "b", "b": "a"}.get)
    assert failure.value.errno == errno.ELOOP


def test_an_entry_is_opened_itself_and_never_what_is_mounted_on_it(root: int, way: str) -> None:
    for name in ("dir", "dangling"):
        fd = beneath.open_unmounted(root, name, os.O_PATH)
        assert os.path.samestat(os.fstat(fd), os.stat(name, dir_fd=root, follow_symlinks=False))
        os.close(fd)
    with pytest.raises(FileNotFoundError):
        beneath.open_unmounted(root, "absent", os.O_PATH)
    top = os.open("/", os.O_PATH)
    try:
        with pytest.raises(OSError, match="busy") as caught:
            beneath.open_unmounted(top, "proc", os.O_PATH)
    finally:
        os.close(top)
    assert caught.value.errno == errno.EBUSY
