"""GET /containers/{id}/export: the whole root as one tar, which imported again gives the same tree."""

import io
import os
import tarfile
from collections.abc import Callable
from urllib.parse import quote

import pytest

from tests.harness.daemon import Daemon
from tests.harness.listening import until

pytestmark = pytest.mark.root

CAPABILITY = b"\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
SCRIPT = """
mkdir /t && cd /t && echo -n data > f && chown 5:6 f && chmod 6755 f && ln f hard && ln -s f link && mkfifo fifo
mknod dev b 7 9 && mkdir -m 1777 d && rm /etc/shadow && touch -d @1000000000 f
name=$(printf 'n%.0s' $(seq 200)) && mkdir $name && echo 1 > $name/$name && touch ready && sleep 1000
"""
# Files that each container's root gets anew, for the engine to mount on.
PLACES = (".dockerenv", "dev/console", "etc/hostname", "etc/hosts", "etc/resolv.conf")


def exported(daemon: Daemon, container: str) -> tarfile.TarFile:
    answer = daemon.request("GET", f"/containers/{container}/export")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/octet-stream"), answer.status
    assert answer.headers["transfer-encoding"] == "chunked"
    return tarfile.open(fileobj=io.BytesIO(answer.body))


def tree(archive: tarfile.TarFile) -> dict[str, tuple]:
    """Everything that should be the same again, by name."""
    return {
        info.name: (
            info.type,
            info.mode & 0o7777,
            info.uid,
            info.gid,
            info.mtime if info.isfile() and info.name not in PLACES else 0,
            info.linkname,
            (info.devmajor, info.devminor),
            {key: value for key, value in info.pax_headers.items() if key.startswith("SCHILY")},
            archive.extractfile(info).read() if info.isfile() else b"",
        )
        for info in archive
    }


@pytest.fixture(params=["running", "stopped"])
def there(request: pytest.FixtureRequest, daemon: Daemon, container: Callable[..., str]) -> str:
    """A container that has changed its root."""
    volume = {"HostConfig": {"NetworkMode": "none", "Tmpfs": {"/tmpfs": ""}}}
    identifier = container("sh", "-c", SCRIPT + "", **volume)
    daemon.begin(identifier)
    until(lambda: daemon.request("HEAD", f"/containers/{identifier}/archive?path=/t/ready").status == 200)
    if request.param == "stopped":
        daemon.request("POST", f"/containers/{identifier}/kill")
        daemon.wait(identifier)
    return identifier


def test_the_root_is_there_as_the_container_has_it(daemon: Daemon, there: str) -> None:
    with exported(daemon, there) as archive:
        found = tree(archive)
    assert found["t/f"] == (tarfile.REGTYPE, 0o6755, 5, 6, 1000000000, "", (0, 0), {}, b"data")
    assert found["t/hard"][0] == tarfile.LNKTYPE and found["t/hard"][5] == "t/f"
    assert found["t/link"][0] == tarfile.SYMTYPE and found["t/fifo"][0] == tarfile.FIFOTYPE
    assert found["t/dev"][0] == tarfile.BLKTYPE and found["t/dev"][6] == (7, 9)
    assert found["t/d"][1] == 0o1777
    assert "n" * 200 in {name.split("/")[-1] for name in found}
    assert "etc/shadow" not in found and "bin/busybox" in found


def test_what_is_mounted_is_left_out(daemon: Daemon, there: str) -> None:
    with exported(daemon, there) as archive:
        names = archive.getnames()
        assert not any(name.startswith(("proc/", "sys/", "tmpfs/", "dev/null")) for name in names)
        assert {"proc", "sys", "tmpfs"} <= set(names)
        assert archive.getmember("etc/hosts").size == 0


def test_an_export_imported_is_the_same_tree(daemon: Daemon, there: str, container: Callable[..., str]) -> None:
    """Owners, modes, times, hard links, devices and file capabilities survive."""
    info = tarfile.TarInfo("capable")
    info.pax_headers = {"SCHILY.xattr.security.capability": CAPABILITY.decode("latin-1")}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT, encoding="latin-1") as archive:
        archive.addfile(info)
    headers = {"Content-Type": "application/x-tar"}
    put = daemon.request("PUT", f"/containers/{there}/archive?path=/t", buffer.getvalue(), headers)
    assert put.status == 200, put
    whole = daemon.request("GET", f"/containers/{there}/export").body
    with tarfile.open(fileobj=io.BytesIO(whole)) as archive:
        first = tree(archive)
    assert "SCHILY.xattr.security.capability" in first["t/capable"][7]
    daemon.import_image(whole, "exported:again")
    try:
        again = container("true", Image="exported:again")
        with exported(daemon, again) as archive:
            assert tree(archive) == first
    finally:
        for identifier in daemon.request("GET", "/containers/json?all=1").json():
            if identifier["Image"] == "exported:again":
                daemon.remove(identifier["Id"])
        daemon.request("DELETE", f"/images/{quote('exported:again')}")


def test_a_container_that_has_never_run_is_its_image(daemon: Daemon, container: Callable[..., str]) -> None:
    """With the places on which the first start mounts, as dockerd's init layer has them, and with nothing more."""
    identifier = container("true")
    with exported(daemon, identifier) as archive:
        never = tree(archive)
    assert {"bin/busybox", "etc/passwd", "tmp", "proc", "sys"} <= set(never)
    for name in PLACES:
        assert (never[name][:4], never[name][-1]) == ((tarfile.REGTYPE, 0o755, 0, 0), b"")
    assert [never[f"dev/{name}"][:2] for name in ("pts", "shm")] == [(tarfile.DIRTYPE, 0o755)] * 2
    assert never["etc/mtab"][0] == tarfile.SYMTYPE and never["etc/mtab"][5] == "/proc/mounts"
    daemon.begin(identifier)
    daemon.wait(identifier)
    with exported(daemon, identifier) as archive:
        assert tree(archive) == never


def test_a_container_that_is_not_there_is_not_found(daemon: Daemon) -> None:
    answer = daemon.request("GET", "/containers/nope/export")
    assert (answer.status, answer.message) == (404, "No such container: nope")


def test_a_client_that_goes_ends_the_export(daemon: Daemon, container: Callable[..., str]) -> None:
    """Nothing stays behind: neither threads nor mounts."""
    identifier = container("true")
    before = len(os.listdir(f"/proc/{daemon.pid}/task"))
    with daemon.connection() as connection:
        connection.open_stream("GET", f"/containers/{identifier}/export")
    until(lambda: len(os.listdir(f"/proc/{daemon.pid}/task")) <= before + 1)
