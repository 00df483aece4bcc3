"""HEAD, GET and PUT /containers/{id}/archive: what is copied, how it is named, what is refused in docker's words."""

import base64
import bz2
import gzip
import io
import json
import lzma
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.harness import execs, rootfs
from tests.harness.daemon import Daemon
from tests.harness.http import Answer
from tests.harness.listening import until

pytestmark = pytest.mark.root

STAT = "x-docker-container-path-stat"
DIRECTORY, SYMLINK, SETUID, STICKY = 1 << 31, 1 << 27, 1 << 23, 1 << 20
SCRIPT = """
mkdir -p /t/d/e && cd /t && echo -n file > f && echo -n deep > d/e/g && ln -s f link && ln -s d dlink
ln -s gone dangling
ln -s /t/../t/dlink/e far && ln f hard && mkfifo fifo && mknod null c 1 3 && chown 3:4 f && chmod 4755 f
chmod 1777 d && touch -d @1000000000 f && touch d/empty && sleep 1000
"""


def url(container: str, path: str, **query: str) -> str:
    more = "".join(f"&{key}={value}" for key, value in query.items())
    return f"/containers/{container}/archive?path={quote(path)}{more}"


def get(daemon: Daemon, container: str, path: str) -> tarfile.TarFile:
    answer = daemon.request("GET", url(container, path))
    assert (answer.status, answer.headers["content-type"]) == (200, "application/x-tar"), answer
    return tarfile.open(fileobj=io.BytesIO(answer.body))


def status(answer: Answer) -> dict:
    return json.loads(base64.b64decode(answer.headers[STAT]))


def put(daemon: Daemon, container: str, path: str, body: bytes, **query: str) -> Answer:
    return daemon.request("PUT", url(container, path, **query), body, {"Content-Type": "application/x-tar"})


def tar_of(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, **fields: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.mode = kind, 0o755 if kind == tarfile.DIRTYPE else 0o644
    for key, value in fields.items():
        setattr(info, key, value)
    return info


def running(daemon: Daemon, container: Callable[..., str], script: str = SCRIPT, **body: object) -> str:
    """A container that has run the script and sleeps, or has ended."""
    identifier = container("sh", "-c", script, **body)
    daemon.begin(identifier)
    until(lambda: daemon.request("HEAD", url(identifier, "/t/d/empty")).status == 200)
    return identifier


@pytest.fixture(params=["running", "stopped"])
def there(request: pytest.FixtureRequest, daemon: Daemon, container: Callable[..., str]) -> str:
    """A container with files of all kinds in /t, running and stopped."""
    identifier = running(daemon, container)
    if request.param == "stopped":
        daemon.request("POST", f"/containers/{identifier}/kill")
        daemon.wait(identifier)
    return identifier


def test_a_file_is_told_as_go_tells_it(daemon: Daemon, there: str) -> None:
    answer = daemon.request("HEAD", url(there, "/t/f"))
    assert (answer.status, answer.body) == (200, b"")
    assert status(answer) == {
        "name": "f",
        "size": 4,
        "mode": SETUID | 0o755,
        "mtime": "2001-09-09T01:46:40Z",
        "linkTarget": "",
    }


@pytest.mark.parametrize(
    ("path", "name", "mode", "target"),
    [
        ("/", "/", DIRECTORY | 0o755, ""),
        ("/t/d", "d", DIRECTORY | STICKY | 0o777, ""),
        ("/t/d/", "d", DIRECTORY | STICKY | 0o777, ""),
        ("/t/d/.", ".", DIRECTORY | STICKY | 0o777, ""),
        ("t/d", "d", DIRECTORY | STICKY | 0o777, ""),
        ("/t/link", "link", SYMLINK | 0o777, "/t/f"),
        ("/t/dlink", "dlink", SYMLINK | 0o777, "/t/d"),
        ("/t/dlink/", "dlink", DIRECTORY | STICKY | 0o777, ""),
        ("/t/far", "far", SYMLINK | 0o777, "/t/d/e"),
        ("/t/dangling", "dangling", SYMLINK | 0o777, "/t/gone"),
        ("/t/fifo", "fifo", 1 << 25 | 0o644, ""),
        ("/t/null", "null", 1 << 26 | 1 << 21 | 0o644, ""),
    ],
)
def test_the_last_part_of_a_path_is_followed_only_with_a_slash(
    daemon: Daemon, there: str, path: str, name: str, mode: int, target: str
) -> None:
    shown = status(daemon.request("HEAD", url(there, path)))
    assert (shown["name"], shown["mode"], shown["linkTarget"]) == (name, mode, target)


def test_a_file_comes_with_its_owner_mode_and_time(daemon: Daemon, there: str) -> None:
    with get(daemon, there, "/t/f") as archive:
        (info,) = archive.getmembers()
        assert archive.extractfile(info).read() == b"file"
        assert (info.name, info.uid, info.gid, info.mode & 0o7777, info.mtime) == ("f", 3, 4, 0o4755, 1000000000)


TREE = ["d", "d/e", "d/e/g", "d/empty"]


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/t/d", TREE),
        ("/t/d/", TREE),
        ("/t/../t//d", TREE),
        ("/t/d/.", [".", "./e", "./e/g", "./empty"]),
        ("/t/dlink/", ["dlink", "dlink/e", "dlink/e/g", "dlink/empty"]),
        ("/t/dlink", ["dlink"]),
        ("/t/dlink/e", ["e", "e/g"]),
        ("/t/far/g", ["g"]),
        ("/t/link", ["link"]),
        ("/t/fifo", ["fifo"]),
        ("/t/null", ["null"]),
    ],
)
def test_members_are_named_by_the_last_part_of_the_path(
    daemon: Daemon, there: str, path: str, names: list[str]
) -> None:
    with get(daemon, there, path) as archive:
        assert archive.getnames() == names


def test_every_kind_of_file_and_hard_links_are_kept(daemon: Daemon, there: str) -> None:
    with get(daemon, there, "/t") as archive:
        kinds = {info.name: (info.type, info.linkname) for info in archive.getmembers()}
        assert kinds["t/null"] == (tarfile.CHRTYPE, "") and kinds["t/fifo"] == (tarfile.FIFOTYPE, "")
        assert kinds["t/f"] == (tarfile.REGTYPE, "") and kinds["t/hard"] == (tarfile.LNKTYPE, "t/f")
        assert kinds["t/dlink"] == (tarfile.SYMTYPE, "d")


def test_the_whole_root_is_named_with_a_slash_and_leaves_out_what_is_the_kernels(daemon: Daemon, there: str) -> None:
    """But for the places on which the kernel's and the engine's own are mounted while it runs."""
    with get(daemon, there, "/") as archive:
        names = archive.getnames()
    assert "/bin/busybox" in names and "/t/d/e/g" in names
    inner = {name for name in names if name.startswith(("/proc/", "/sys/", "/dev/"))}
    assert inner <= {"/dev/console", "/dev/pts", "/dev/shm"}


@pytest.mark.parametrize("method", ["HEAD", "GET", "PUT"])
def test_what_is_not_there_is_not_found(daemon: Daemon, there: str, method: str) -> None:
    answer = daemon.request(method, url(there, "/t/nope"), b"" if method == "PUT" else None)
    assert answer.status == 404
    if method != "HEAD":
        assert answer.message == f"Could not find the file /t/nope in container {there}"


@pytest.mark.parametrize("method", ["HEAD", "GET", "PUT"])
def test_a_path_is_needed(daemon: Daemon, there: str, method: str) -> None:
    answer = daemon.request(method, f"/containers/{there}/archive", b"" if method == "PUT" else None)
    assert answer.status == 400
    if method != "HEAD":
        assert answer.message == "bad parameter: path cannot be empty"


@pytest.mark.parametrize("path", ["/t/f/x", "/t/f/", "/" + "a" * 300, "/t/x\0y"])
def test_a_path_that_can_be_none_is_told_in_words(daemon: Daemon, there: str, path: str) -> None:
    answer = daemon.request("GET", url(there, path))
    assert answer.status == 500 and answer.message.startswith("lstat /"), answer


def test_what_is_put_is_there(daemon: Daemon, there: str) -> None:
    body = tar_of(
        (member("new", uid=7, gid=8, mode=0o4711, mtime=1234567890), b"hello"),
        (member("sub", tarfile.DIRTYPE, mode=0o1770), b""),
        (member("sub/in/there"), b"x" * 100_000),
        (member("sub/link", tarfile.SYMTYPE, linkname="../../../../etc/passwd"), b""),
        (member("sub/hard", tarfile.LNKTYPE, linkname="new"), b""),
        (member("pipe", tarfile.FIFOTYPE), b""),
        (member("zero", tarfile.CHRTYPE, devmajor=1, devminor=5), b""),
    )
    answer = put(daemon, there, "/t/d", body)
    assert (answer.status, answer.body) == (200, b"")
    with get(daemon, there, "/t/d") as archive:
        new = archive.getmember("d/new")
        assert (new.uid, new.gid, new.mode & 0o7777, new.mtime) == (7, 8, 0o4711, 1234567890)
        assert archive.extractfile("d/sub/in/there").read() == b"x" * 100_000
        assert archive.getmember("d/sub").mode & 0o7777 == 0o1770
        assert archive.getmember("d/sub/link").linkname == "../../../../etc/passwd"
        assert archive.getmember("d/sub/hard").linkname == "d/new"
        assert (archive.getmember("d/zero").devminor, archive.getmember("d/pipe").isfifo()) == (5, True)
        assert archive.extractfile("d/e/g").read() == b"deep"


def test_what_is_put_into_a_stopped_container_is_there_when_it_starts(
    daemon: Daemon, container: Callable[..., str]
) -> None:
    identifier = container("cat", "/tmp/in", "/etc/hostname")
    assert put(daemon, identifier, "/tmp", tar_of((member("in"), b"before\n"))).status == 200
    daemon.begin(identifier)
    assert daemon.wait(identifier) == 0
    assert b"before\n" in daemon.logs(identifier)


def test_a_container_that_has_never_run_can_be_read(daemon: Daemon, container: Callable[..., str]) -> None:
    identifier = container("true")
    with get(daemon, identifier, "/etc/passwd") as archive:
        assert archive.extractfile("passwd").read() == rootfs.PASSWD.encode()
    found = status(daemon.request("HEAD", url(identifier, "/etc/hostname")))
    assert (found["size"], found["mode"] & 0o777) == (0, 0o755)  # as in the init layer of dockerd
    failing = container("/etc/passwd")
    assert daemon.request("POST", f"/containers/{failing}/start").status == 400
    found = status(daemon.request("HEAD", url(failing, "/etc/hostname")))
    assert found["size"] > 0 and found["mode"] & 0o777 == 0o644
    assert daemon.request("GET", f"/containers/{identifier}/changes").json() is None


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress], ids=["gzip", "bzip2", "xz"])
def test_a_compressed_body_is_unpacked(daemon: Daemon, there: str, pack: Callable[[bytes], bytes]) -> None:
    assert put(daemon, there, "/t", pack(tar_of((member("packed"), b"inside")))).status == 200
    with get(daemon, there, "/t/packed") as archive:
        assert archive.extractfile("packed").read() == b"inside"


@pytest.mark.parametrize(("path", "place"), [("/t/dlink", "d"), ("/t/far", "d/e"), ("t/d/.", "d")])
def test_a_destination_may_be_a_symbolic_link(daemon: Daemon, there: str, path: str, place: str) -> None:
    assert put(daemon, there, path, tar_of((member("by-link"), b"!"))).status == 200
    assert daemon.request("HEAD", url(there, f"/t/{place}/by-link")).status == 200


def test_a_parent_that_is_a_symbolic_link_leads_where_it_leads_for_the_container(daemon: Daemon, there: str) -> None:
    body = tar_of((member("up", tarfile.SYMTYPE, linkname="/tmp"), b""), (member("up/through"), b"1"))
    assert put(daemon, there, "/t/d", body).status == 200
    assert daemon.request("HEAD", url(there, "/tmp/through")).status == 200


def test_a_file_is_no_place_to_unpack(daemon: Daemon, there: str) -> None:
    answer = put(daemon, there, "/t/f", tar_of((member("x"), b"")))
    assert (answer.status, answer.message) == (400, "extraction point is not a directory")


@pytest.mark.parametrize("end", ["/", "/.", "/./"])
def test_a_file_that_is_named_as_a_directory_is_none_in_the_kernels_words(daemon: Daemon, there: str, end: str) -> None:
    answer = put(daemon, there, f"/t/f{end}", tar_of((member("x"), b"")))
    assert (answer.status, answer.message.startswith("lstat /t/f/")) == (500, True), answer.message
    assert answer.message.endswith(": not a directory")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"not a tar at all", "unexpected EOF"),
        (tar_of((member("../out"), b"x")), '"../out" is outside of "/t/d"'),
        (tar_of((member("a/../../out"), b"x")), '"../out" is outside of "/t/d"'),
        (tar_of((member("x", tarfile.LNKTYPE, linkname="../f"), b"")), 'invalid hardlink "/t/f" -> "../f"'),
        (
            tar_of((member("x", tarfile.LNKTYPE, linkname="nope"), b"")),
            "failed to unpack 'x': no such file or directory",
        ),
        (tar_of((member("empty/x"), b"")), "failed to unpack 'empty/x': not a directory"),
    ],
)
def test_an_archive_that_is_wrong_is_told_in_words(daemon: Daemon, there: str, body: bytes, text: str) -> None:
    answer = put(daemon, there, "/t/d", body)
    assert (answer.status, answer.message) == (500, text)


def test_an_archive_may_be_followed_by_zeros(daemon: Daemon, there: str) -> None:
    """Far more than a connection is read for after its answer."""
    assert put(daemon, there, "/t/d", tar_of((member("padded"), b"1")) + bytes(8 << 20)).status == 200
    assert daemon.request("HEAD", url(there, "/t/d/padded")).status == 200


def test_an_empty_body_puts_nothing(daemon: Daemon, there: str) -> None:
    assert put(daemon, there, "/t/d", b"").status == 200


def test_directories_and_files_take_each_others_place_only_if_they_may(daemon: Daemon, there: str) -> None:
    over_directory = tar_of((member("e"), b"now a file"))
    over_file = tar_of((member("empty", tarfile.DIRTYPE), b""))
    answer = put(daemon, there, "/t/d", over_directory, noOverwriteDirNonDir="1")
    assert (answer.status, answer.message) == (500, 'cannot overwrite directory "/t/d/e" with non-directory "/t/d"')
    answer = put(daemon, there, "/t/d", over_file, noOverwriteDirNonDir="true")
    assert (answer.status, answer.message) == (500, 'cannot overwrite non-directory "/t/d/empty" with directory "/t/d"')
    for body in (over_directory, over_file):
        assert put(daemon, there, "/t/d", body).status == 200
    with get(daemon, there, "/t/d") as archive:
        assert archive.getmember("d/e").isfile() and archive.getmember("d/empty").isdir()


def test_copy_uid_gid_gives_all_to_the_user_of_the_container(daemon: Daemon, container: Callable[..., str]) -> None:
    identifier = container("true", User="www-data")
    body = tar_of((member("kept", uid=5, gid=6), b""))
    assert put(daemon, identifier, "/tmp", body).status == 200
    assert put(daemon, identifier, "/home", body, copyUIDGID="true").status == 200
    for path, owner in (("/tmp/kept", (5, 6)), ("/home/kept", (33, 33))):
        with get(daemon, identifier, path) as archive:
            info = archive.getmembers()[0]
            assert (info.uid, info.gid) == owner


def test_a_read_only_root_takes_nothing(daemon: Daemon, container: Callable[..., str]) -> None:
    identifier = container("sleep", "100", HostConfig={"ReadonlyRootfs": True})
    for start in (True, False):
        answer = put(daemon, identifier, "/tmp", tar_of((member("x"), b"")))
        assert (answer.status, answer.message) == (400, "container rootfs is marked read-only")
        if start:
            daemon.begin(identifier)
    with get(daemon, identifier, "/etc/passwd") as archive:
        assert archive.getnames() == ["passwd"]


def test_volumes_and_binds_are_read_and_written_running_or_not(
    daemon: Daemon, container: Callable[..., str], tmp_path: object
) -> None:
    (tmp_path / "rw").mkdir()
    (tmp_path / "ro").mkdir()
    (tmp_path / "ro" / "there").write_text("host")
    binds = [f"{tmp_path}/rw:/data/rw", f"{tmp_path}/ro:/data/ro:ro"]
    identifier = container("sleep", "100", HostConfig={"Binds": binds, "ReadonlyRootfs": True})
    for round_, name in enumerate(("before", "after")):
        assert put(daemon, identifier, "/data/rw", tar_of((member(name), b"v"))).status == 200
        assert (tmp_path / "rw" / name).read_bytes() == b"v"
        answer = put(daemon, identifier, "/data/ro", tar_of((member(name), b"v")))
        assert (answer.status, answer.message) == (400, "mounted volume is marked read-only")
        with get(daemon, identifier, "/data") as archive:
            assert {"data/ro/there", f"data/rw/{name}"} <= set(archive.getnames())
        if not round_:
            daemon.begin(identifier)


def test_a_large_file_goes_through_whole(daemon: Daemon, container: Callable[..., str]) -> None:
    identifier = container("sleep", "100")
    data = bytes(range(256)) * (1 << 15)
    for start in (True, False):
        assert put(daemon, identifier, "/root", tar_of((member("large"), data))).status == 200
        with get(daemon, identifier, "/root/large") as archive:
            assert archive.extractfile("large").read() == data
        if start:
            daemon.begin(identifier)


def test_nothing_is_mounted_on_the_host_and_a_slow_reader_keeps_no_container_from_starting(
    daemon: Daemon, container: Callable[..., str]
) -> None:
    identifier = container("sleep", "100")
    with daemon.connection() as slow:
        status_, _ = slow.open_stream("GET", url(identifier, "/"))
        assert status_ == 200
        mounts = Path(f"/proc/{daemon.pid}/mounts").read_text()
        assert identifier not in mounts and "/data/tmp" not in mounts
        daemon.begin(identifier)
        assert b"/bin/busybox" in b"".join(slow.chunks())


def test_a_slow_sender_keeps_no_container_from_starting(daemon: Daemon, container: Callable[..., str]) -> None:
    identifier = container("sleep", "100")
    body = tar_of((member("late"), b"late"))
    with daemon.connection() as slow:
        head = f"PUT {url(identifier, '/tmp')} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        slow.send(head.encode() + body[:100])
        time.sleep(0.1)
        daemon.begin(identifier)
        slow.send(body[100:])
        assert slow.read_answer().status == 200
    assert daemon.request("HEAD", url(identifier, "/tmp/late")).status == 200


def test_copies_are_told_as_events(daemon: Daemon, there: str) -> None:
    since = f"{time.time():.9f}"
    daemon.request("HEAD", url(there, "/t/f"))
    get(daemon, there, "/t/f").close()
    assert put(daemon, there, "/t", tar_of((member("x"), b""))).status == 200
    filters = quote(json.dumps({"container": [there]}))
    query = f"since={since}&until={time.time():.9f}&filters={filters}"
    answer = daemon.request("GET", f"/events?{query}", checked=False)
    actions = [line["Action"] for line in answer.lines if line["Type"] == "container"]
    assert actions == ["archive-path", "extract-to-dir"]


def replacing(name: str, kind: bytes) -> bytes:
    """An archive with one member of that kind."""
    return tar_of((member(name, kind, linkname="x"), b"other" if kind == tarfile.REGTYPE else b""))


KINDS = pytest.mark.parametrize(
    "kind", [tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.FIFOTYPE], ids=["file", "dir", "link", "fifo"]
)


@pytest.fixture(params=["running", "stopped"])
def mounted(
    request: pytest.FixtureRequest, daemon: Daemon, container: Callable[..., str], tmp_path: Path
) -> tuple[str, Path]:
    """A container with things mounted in it, and the host's directory with the file and the directory that are."""
    (tmp_path / "dir" / "in").mkdir(parents=True)
    (tmp_path / "dir" / "in" / "file").write_text("kept")
    (tmp_path / "a b\\").write_text("host")
    binds = [f"{tmp_path}/a b\\:/m/a b\\", f"{tmp_path}/dir:/m/deep/dir"]
    identifier = container("sleep", "100", HostConfig={"Binds": binds, "Tmpfs": {"/m/tmpfs": ""}})
    daemon.begin(identifier)
    if request.param == "stopped":
        daemon.request("POST", f"/containers/{identifier}/kill")
        daemon.wait(identifier)
    return identifier, tmp_path


@KINDS
def test_nothing_takes_the_place_of_what_is_mounted(daemon: Daemon, mounted: tuple[str, Path], kind: bytes) -> None:
    identifier, place = mounted
    live = daemon.inspect(identifier)["State"]["Running"]
    places = ["/m/a b\\", "/m/deep/dir", "/etc/hosts", "/etc/resolv.conf", "/etc/hostname", "/m/deep", "/etc"]
    for path in (*places, *(("/m/tmpfs", "/dev/shm") if live else ())):
        above, _, name = path.rpartition("/")
        is_directory = path not in places[:1] + places[2:5]
        answer = put(daemon, identifier, above or "/", replacing(name, kind))
        if is_directory and kind == tarfile.DIRTYPE:
            assert answer.status == 200, (path, answer)
            continue
        assert answer.status == 500 and answer.message.endswith(": device or resource busy"), (path, answer)
    assert (place / "dir/in/file").read_text() == "kept" and (place / "a b\\").read_text() == "host"
    with get(daemon, identifier, "/etc") as archive:
        assert {"etc/hosts", "etc/passwd", "etc/resolv.conf"} <= set(archive.getnames())
    if not live:
        daemon.begin(identifier)
    with get(daemon, identifier, "/m/deep/dir/in/file") as archive:
        assert archive.extractfile("file").read() == b"kept"
    said = execs.run(daemon, identifier, "sh", "-c", "grep -c -e ' /m/' -e ' /etc/h' -e ' /etc/resolv' /proc/mounts")
    assert said.out == "6\n"


def test_a_mount_of_the_containers_own_is_not_removed_either(daemon: Daemon, container: Callable[..., str]) -> None:
    """The daemon is in another mount namespace than who has mounted it."""
    script = "mkdir -p /own/t /own/x && mount -t tmpfs none /own/t && echo kept > /own/t/file && mkdir /up && sleep 100"
    identifier = container("sh", "-c", script, HostConfig={"Privileged": True})
    daemon.begin(identifier)
    until(lambda: daemon.request("HEAD", url(identifier, "/up")).status == 200)
    for above, name in (("/own", "t"), ("/", "own")):
        answer = put(daemon, identifier, above, replacing(name, tarfile.REGTYPE))
        assert (answer.status, answer.message) == (500, f"failed to unpack {name!r}: device or resource busy")
    with get(daemon, identifier, "/own") as archive:
        assert {"own/t/file", "own/x"} <= set(archive.getnames())
