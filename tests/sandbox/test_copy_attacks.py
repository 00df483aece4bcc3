"""Attacks on copying files out of and into a container, by programs inside it and by hostile archives.

CVE-2018-15664: a directory that is looked up is swapped for a symbolic link before it is used. CVE-2021-41091: what
containers wrote was within reach of the host's ordinary users. CVE-2019-14271, CVE-2021-41089 and their like: links,
devices and dots in archives. Nothing on the host may be read, written, or given another mode.
"""

import io
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.daemon.containers.contents import rootfs
from tests.harness import execs
from tests.harness.amounts import amount
from tests.harness.daemon import Daemon
from tests.harness.listening import until
from tests.sandbox.bait import state

pytestmark = pytest.mark.root

SECONDS = amount(3.0, 1.0)
TAR = {"Content-Type": "application/x-tar"}


def tar_of(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, **fields: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.mode = kind, 0o777
    for key, value in fields.items():
        setattr(info, key, value)
    return info


def url(container: str, path: str) -> str:
    return f"/containers/{container}/archive?path={quote(path)}"


@pytest.fixture
def racing(daemon: Daemon, container: Callable[..., str], attacker: bytes, bait: Path) -> Callable[[str, str], str]:
    """A container in which two names are being swapped: those are made by the script, where BAIT is the bait's path."""

    def start(script: str, names: str) -> str:
        identifier = container("sh", "-c", f"{script.replace('BAIT', str(bait))}; exec /attacker swap {names}")
        body = tar_of((member("attacker"), attacker))
        assert daemon.request("PUT", url(identifier, "/"), body, TAR).status == 200
        daemon.begin(identifier)
        with daemon.connection() as logs:
            logs.open_stream("GET", f"/containers/{identifier}/logs?stdout=1&stderr=1&follow=1")
            assert b"ready" in next(logs.chunks())
        return identifier

    return start


def repeat(attempt: Callable[[], int]) -> dict[int, int]:
    """Try for a while; how often each status came."""
    seen: dict[int, int] = {}
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        status = attempt()
        seen[status] = seen.get(status, 0) + 1
    return seen


SWAPPED_DIRECTORY = "mkdir -p /race/dir && echo -n inside > /race/dir/secret && ln -s BAIT /race/link"


def test_a_directory_swapped_for_a_link_gives_nothing_of_the_host(daemon: Daemon, racing: Callable) -> None:
    """CVE-2018-15664, out of the container."""
    identifier = racing(SWAPPED_DIRECTORY, "/race/dir /race/link")

    def read() -> int:
        answer = daemon.request("GET", url(identifier, "/race/dir/secret"), checked=False)
        assert b"of the host" not in answer.body
        return answer.status

    assert repeat(read).get(200), "the race was never won by the honest side, so nothing was tried"


def test_a_tree_walked_while_it_is_swapped_gives_nothing_of_the_host(daemon: Daemon, racing: Callable) -> None:
    identifier = racing(SWAPPED_DIRECTORY, "/race/dir /race/link")

    def read() -> int:
        answer = daemon.request("GET", url(identifier, "/race"), checked=False)
        assert b"of the host" not in answer.body
        return answer.status

    assert set(repeat(read)) == {200}


READ = {
    "commit": ("POST", "/commit?container={}&pause=0"),
    "export": ("GET", "/containers/{}/export"),
    "changes": ("GET", "/containers/{}/changes"),
    "sizes": ("GET", "/containers/{}/json?size=1"),
}


@pytest.mark.parametrize("what", READ)
def test_a_container_that_swaps_directories_and_links_is_read_all_the_same(
    daemon: Daemon, racing: Callable, what: str
) -> None:
    method, path = READ[what]
    identifier = racing(
        "mkdir -p /race/dir/deep && echo > /race/dir/deep/a && ln -s dir /race/link", "/race/dir /race/link"
    )
    made: list[str] = []

    def read() -> int:
        answer = daemon.request(method, path.format(identifier), checked=False)
        if what == "commit" and answer.status == 201:
            made.append(answer.json()["Id"])
        return answer.status

    try:
        assert set(repeat(read)) <= {200, 201}
    finally:
        for image in made:
            daemon.request("DELETE", f"/images/{image}?force=1")


def test_a_file_swapped_for_a_link_gives_nothing_of_the_host(daemon: Daemon, racing: Callable) -> None:
    identifier = racing(
        "mkdir /race && echo -n inside > /race/file && ln -s BAIT/secret /race/link", "/race/file /race/link"
    )

    def read() -> int:
        answer = daemon.request("GET", url(identifier, "/race"), checked=False)
        assert b"of the host" not in answer.body
        return answer.status

    assert set(repeat(read)) == {200}


@pytest.mark.parametrize(("path", "prefix"), [("/race/dir", ""), ("/race", "dir/"), ("/race", "link/")])
def test_a_directory_swapped_for_a_link_lets_nothing_be_written_on_the_host(
    daemon: Daemon, racing: Callable, bait: Path, path: str, prefix: str
) -> None:
    """CVE-2018-15664, into the container; `bait` says whether anything was touched."""
    identifier = racing(SWAPPED_DIRECTORY, "/race/dir /race/link")
    body = tar_of(
        (member(f"{prefix}planted", uid=4242), b"x"),
        (member(f"{prefix}sub/planted"), b"x"),
        (member(f"{prefix}pipe", tarfile.FIFOTYPE, uid=4242), b""),
        (member(f"{prefix}secret"), b"overwritten"),
    )
    seen = repeat(lambda: daemon.request("PUT", url(identifier, path), body, TAR, checked=False).status)
    assert seen.get(200), seen
    assert os.listdir(bait) == ["secret"]


@pytest.mark.parametrize("kind", [tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.REGTYPE, tarfile.DIRTYPE])
def test_what_is_unpacked_is_swapped_for_a_link_before_it_gets_its_mode(
    daemon: Daemon, racing: Callable, bait: Path, kind: bytes
) -> None:
    """Owner, mode, times and attributes of the file that the link points at stay what they are."""
    identifier = racing("mkdir /race && echo > /race/victim && ln -s BAIT/secret /race/link", "/race/victim /race/link")
    info = member("victim", kind, uid=4242, gid=4242, mtime=1, devmajor=1, devminor=3)
    body = tar_of((info, b""), (member("implied/by/name"), b""))
    seen = repeat(lambda: daemon.request("PUT", url(identifier, "/race"), body, TAR, checked=False).status)
    assert seen.get(200), seen


@pytest.mark.parametrize(
    "path", ["/proc/self/root/etc/passwd", "/proc/1/root/etc/passwd", "/proc/1/cwd/", "/proc/1/exe/", "/proc/1/fd/0/"]
)
def test_magic_links_lead_nowhere(daemon: Daemon, container: Callable[..., str], path: str) -> None:
    identifier = container("sleep", "1000")
    daemon.begin(identifier)
    answer = daemon.request("GET", url(identifier, path))
    assert answer.status in (404, 500), answer
    answer = daemon.request("PUT", url(identifier, path), tar_of((member("x"), b"")), TAR)
    if answer.status == 200:  # read as an ordinary link, its text leads to where it leads in the container
        assert path == "/proc/1/cwd/" and daemon.request("HEAD", url(identifier, "/x")).status == 200
    else:
        assert answer.status in (400, 404, 500)


def test_a_process_1_that_has_changed_its_root_does_not_change_what_is_copied(
    daemon: Daemon, container: Callable[..., str]
) -> None:
    script = "mkdir -p /c/bin && cp /bin/busybox /c/bin/sleep && cd /c && exec chroot /c /bin/sleep 1000"
    identifier = container("sh", "-c", script)
    daemon.begin(identifier)
    until(lambda: daemon.request("HEAD", url(identifier, "/c/bin/sleep")).status == 200)
    time.sleep(0.2)
    assert daemon.request("HEAD", url(identifier, "/c/bin/sleep")).status == 200


def test_ordinary_users_of_the_host_reach_nothing_of_a_container(daemon: Daemon, container: Callable[..., str]) -> None:
    """CVE-2021-41091: a setuid program in a container's files was theirs to run."""
    identifier = container("sh", "-c", "cp /bin/busybox /tool && chmod 4755 /tool; sleep 1000")
    daemon.begin(identifier)
    for above in (daemon.data_root.parent, daemon.data_root.parent.parent):
        above.chmod(0o755)  # pytest's own directories would hide what the daemon leaves open
    places = [
        daemon.data_root / "containers" / identifier / "upper",
        daemon.data_root / "containers",
        daemon.data_root / "layers",
        daemon.data_root / "blobs" / "sha256",
        daemon.data_root / "tmp",
        daemon.exec_root / "containers",
    ]
    for place in places:
        assert place.exists()
        looked = subprocess.run(["ls", str(place)], user=65534, group=65534, extra_groups=[], capture_output=True)
        assert looked.returncode != 0 and not looked.stdout


# Hostile archives

NAMES = st.one_of(
    st.sampled_from(
        [
            "a",
            "a/b",
            "a/b/c",
            "..",
            "../x",
            "a/../../x",
            "/",
            "/abs",
            ".",
            "./a",
            "link",
            "link/x",
            "dir/link/y",
            "",
            "a//b",
        ]
    ),
    st.text(alphabet="ab./\x00\n\udc80é", max_size=20),
    st.integers(90, 5000).map(lambda length: "long/" * (length // 5)),
)
KINDS = st.sampled_from([b"0", b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"L", b"K", b"x", b"g", b"S", b"Z", b"\0"])


@st.composite
def archives(draw: st.DrawFn, bait_path: str) -> bytes:
    """A tar of odd members, perhaps damaged, perhaps cut off."""
    data = bytearray()
    for _ in range(draw(st.integers(0, 6))):
        info = tarfile.TarInfo(draw(NAMES))
        info.type = draw(KINDS)
        info.linkname = draw(st.one_of(NAMES, st.sampled_from([bait_path, f"{bait_path}/secret", "/proc/self/root"])))
        info.mode = draw(st.integers(0, 0o7777))
        info.uid, info.gid = draw(st.integers(0, 2**33)), draw(st.integers(0, 70000))
        info.mtime = draw(st.integers(-5, 2**35))
        info.devmajor, info.devminor = draw(st.integers(0, 300)), draw(st.integers(0, 300))
        contents = draw(st.binary(max_size=30))
        info.size = draw(st.sampled_from([len(contents), 0, 5000]))
        try:
            data += info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
        except ValueError:
            continue
        data += contents + bytes(-len(contents) % 512)
    for _ in range(draw(st.integers(0, 3))):
        if data:
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data)


@pytest.mark.parametrize("run", [True, False], ids=["running", "stopped"])
def test_no_archive_writes_outside_or_breaks_the_daemon(
    daemon: Daemon, container: Callable[..., str], bait: Path, run: bool
) -> None:
    """Whatever the body is, the answer is 200 or says in words what is wrong, and the host's files are as they were."""
    script = (
        f"mkdir -p /f/dir && ln -s {bait} /f/link && ln -s {bait} /f/dir/link; {'exec sleep 1000' if run else 'true'}"
    )
    identifier = container("sh", "-c", script)
    daemon.begin(identifier)
    if not run:
        daemon.wait(identifier)
    until(lambda: daemon.request("HEAD", url(identifier, "/f/dir/link")).status == 200)
    before = state(bait)

    @settings(max_examples=amount(150, 40), deadline=None, suppress_health_check=list(HealthCheck))
    @given(archives(str(bait)), st.sampled_from(["/f", "/f/dir", "/f/link", "/"]), st.booleans())
    def attempt(body: bytes, path: str, keep: bool) -> None:
        target = url(identifier, path) + f"&noOverwriteDirNonDir={int(keep)}"
        answer = daemon.request("PUT", target, body, TAR)
        assert answer.status == 200 or (400 <= answer.status < 600 and answer.message), answer
        assert "internal error" not in answer.body.decode(errors="replace"), answer
        assert state(bait) == before

    attempt()
    assert daemon.request("GET", f"/containers/{identifier}/export").status == 200


LOADED = (
    "/etc/nsswitch.conf",
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
    "/etc/localtime",
    "/lib/x86_64-linux-gnu/libnss_files.so.2",
    "/usr/lib/x86_64-linux-gnu/gconv/gconv-modules.cache",
    f"{sys.prefix}/pyvenv.cfg",
    f"{os.path.dirname(os.__file__)}/pwd.py",
    f"{os.path.dirname(os.__file__)}/tarfile.py",
    str(Path(rootfs.__file__)),
)


@pytest.mark.usefixtures("busybox")
def test_cve_2019_14271_nothing_is_loaded_from_within(daemon: Daemon, container: Callable[..., str]) -> None:
    """docker-tar looked for users' names inside, and loaded the container's libraries for it. Each file that anyone
    might load is a FIFO here, and who opens it is told."""
    traps = " ".join(LOADED)
    trap = f"for f in {traps}; do mkdir -p ${{f%/*}}; rm -f $f; mkfifo $f; (: > $f; echo opened $f) & done"
    one = container("sh", "-c", f"{trap}; touch /ready; sleep 600", User="0:0")
    daemon.begin(one)
    until(lambda: daemon.request("HEAD", f"/containers/{one}/archive?path=/ready").status == 200)
    packed = tar_of((member("theirs"), b"x"))
    for query in ("path=/tmp", "path=/tmp&copyUIDGID=1"):
        answer = daemon.request("PUT", f"/containers/{one}/archive?{query}", packed, TAR)
        assert answer.status == 200, answer
    for path in ("archive?path=/etc", "changes", "export", "top", "stats?stream=0&one-shot=1"):
        assert daemon.request("GET", f"/containers/{one}/{path}", checked=False).status == 200, path
    assert execs.run(daemon, one, "id", User="root").code == 0
    assert daemon.logs(one) == b""
    # So that it can fail: this is how it is told.
    execs.shell(daemon, one, "head -c 0 < /etc/nsswitch.conf")
    until(lambda: b"opened /etc/nsswitch.conf" in daemon.logs(one))


def test_cve_2026_41568_and_42306_a_place_of_a_mount_that_becomes_a_link_leads_nowhere(
    daemon: Daemon, container: Callable[..., str], attacker: bytes, bait: Path
) -> None:
    """A copy into a stopped container mounts its volumes first. Another container that has the outer volume swaps the
    directory on which the inner one is to be mounted: docker made it, or mounted on it, where the link led."""
    outer, inner = f"outer-{os.getpid()}", f"inner-{os.getpid()}"
    mounts = [
        {"Type": "volume", "Source": outer, "Target": "/a"},
        {"Type": "volume", "Source": inner, "Target": "/a/dir/deep/er"},
    ]
    stopped = container("true", HostConfig={"NetworkMode": "none", "Mounts": mounts})
    script = f"mkdir -p /a/dir; ln -s {bait} /a/link; exec /attacker swap /a/dir /a/link"
    swapping = container("sh", "-c", script, HostConfig={"NetworkMode": "none", "Mounts": mounts[:1]})
    packed = tar_of((member("attacker"), attacker))
    assert daemon.request("PUT", url(swapping, "/"), packed, TAR).status == 200
    daemon.begin(swapping)
    try:
        before = Path(f"/proc/{daemon.pid}/mountinfo").read_text()
        body = tar_of((member("secret"), b"overwritten"), (member("planted"), b"x"))
        seen: dict[int, int] = {}
        end = time.monotonic() + SECONDS / 2
        while time.monotonic() < end:
            for path in ("/", "/a/dir", "/a/dir/deep/er"):
                status = daemon.request("PUT", url(stopped, path), body, TAR, checked=False).status
                seen[status] = seen.get(status, 0) + 1
                answer = daemon.request("GET", url(stopped, "/a/dir"), checked=False)
                assert b"of the host" not in answer.body
        assert seen.get(200), seen
        assert Path(f"/proc/{daemon.pid}/mountinfo").read_text() == before
    finally:
        daemon.remove(swapping)
        daemon.remove(stopped)
        for name in (outer, inner):
            daemon.request("DELETE", f"/volumes/{name}?force=1")
