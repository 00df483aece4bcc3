"""What an image, a volume or another container can put in the way of a mount: each named after the flaw it repeats."""

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.dataclass import replace
from engine.sandbox import masks
from engine.sandbox.spec import Mount, Sandbox
from tests.sandbox.harness import Bench, Result

pytestmark = pytest.mark.root

SECRET = "only the host has this\n"
LIBC = ctypes.CDLL(None)
AT_FDCWD, RENAME_EXCHANGE = -100, 2


def asked(source: Path | str, target: str, **values: object) -> Mount:
    """A bind as a client asks for it."""
    return Mount("bind", str(source), target, ("rbind",), asked=True, **values)


def with_mounts(sandbox: Sandbox, *wanted: Mount) -> Sandbox:
    """The sandbox with more mounts, at the end."""
    return replace(sandbox, mounts=(*sandbox.mounts, *wanted))


def without_dev(sandbox: Sandbox, dev: Path, **changes: object) -> Sandbox:
    """The sandbox of a client that binds a /dev of its own: nothing is made in it."""
    kept = tuple(mount for mount in sandbox.mounts if not mount.target.startswith("/dev"))
    return replace(sandbox, mounts=(*kept, asked(dev, "/dev")), devices=(), **changes)


@pytest.fixture
def place(bench: Bench, tmp_path: Path) -> Path:
    """A directory of the host with a secret beside the volume."""
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "volume").mkdir()
    return tmp_path


@contextmanager
def exchanging(directory: Path, name: str, target: str) -> Iterator[None]:
    """A directory and a symbolic link take turns at a name, as fast as they can."""
    (directory / name).mkdir(exist_ok=True)
    (directory / "link").symlink_to(target)
    one, other = (os.fsencode(directory / each) for each in (name, "link"))
    stopped = threading.Event()

    def exchange() -> None:
        while not stopped.is_set():
            LIBC.renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE)

    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def failed(result: Result) -> bool:
    """Whether init gave up: an answer to an attack as good as any."""
    return any("Failure" in repr(one) for one in result.reports)


@pytest.mark.parametrize("target", ["/", "/etc", "../../../../..", "/proc/1/root", "/proc/self/cwd/.."])
def test_cve_2021_30465_a_target_that_becomes_a_link_leads_nowhere_else(bench: Bench, place: Path, target: str) -> None:
    """Another container that has the volume exchanges the directory on which the next volume is to be mounted."""
    volume, other = place / "volume", place / "other"
    other.mkdir()
    (other / "mark").write_text("mark")
    before = Path("/proc/self/mountinfo").read_text()
    with exchanging(volume, "at", target):
        for _ in range(8):
            script = (
                f"cat /volume/at/here/mark /here/mark /etc/here/mark; cat {place}/secret; cat /volume/at/{place}/secret"
            )
            sandbox = with_mounts(
                bench.sandbox("sh", "-c", script), asked(volume, "/volume"), asked(other, "/volume/at/here")
            )
            result = bench.run(sandbox)
            assert SECRET not in result.out
            assert failed(result) or "mark" in result.out or "at/here" in result.err, result
    assert Path("/proc/self/mountinfo").read_text() == before
    assert not os.path.exists("/here") and not os.path.exists("/etc/here")


@pytest.mark.parametrize("target", ["/", "..", "../..", "/etc", "/proc/self/root"])
def test_cve_2017_1002101_a_subpath_that_is_a_link_stays_in_its_volume(bench: Bench, place: Path, target: str) -> None:
    volume = place / "volume"
    (volume / "link").symlink_to(target)
    result = bench.run(
        with_mounts(bench.sandbox("sh", "-c", "ls -a /in; cat /in/secret"), asked(volume, "/in", subpath="link"))
    )
    assert "secret" not in result.out and "passwd" not in result.out
    assert failed(result) or "link" in result.out, result


def test_cve_2021_25741_a_subpath_that_becomes_a_link_stays_in_its_volume(bench: Bench, place: Path) -> None:
    volume = place / "volume"
    with exchanging(volume, "part", str(place)):
        for _ in range(8):
            sandbox = bench.sandbox("sh", "-c", "ls -a /in; cat /in/secret")
            result = bench.run(with_mounts(sandbox, asked(volume, "/in", subpath="part")))
            assert SECRET not in result.out


@pytest.mark.parametrize("name", ["proc", "data"])
def test_cve_2019_16884_no_volume_takes_the_place_of_proc(bench: Bench, place: Path, name: str) -> None:
    """By the name itself, as an image's VOLUME would have it, and by a link that the image brings."""
    sandbox = bench.sandbox("true")
    if name != "proc":
        (bench.base / sandbox.root.upper / name).symlink_to("/proc")
    result = bench.run(with_mounts(sandbox, asked(place / "volume", f"/{name}")))
    assert result.failure.step == "mounts" and "because it is not of type proc" in result.failure.text


@pytest.mark.parametrize("target", ["/proc/sys", "/proc/self", "/link/sys", "/link/self/attr", "/proc/../proc/kcore"])
def test_cve_2019_19921_nothing_is_mounted_below_proc(bench: Bench, place: Path, target: str) -> None:
    sandbox = bench.sandbox("true")
    (bench.base / sandbox.root.upper / "link").symlink_to("proc")
    (place / "file").write_text("")
    source = place / "file" if target.endswith("kcore") else place / "volume"
    result = bench.run(with_mounts(sandbox, asked(source, target)))
    assert result.failure.step == "mounts"
    assert "because it is inside /proc" in result.failure.text or "no such file" in result.failure.text


def test_cve_2019_19921_a_tmpfs_is_not_mounted_below_proc_either(bench: Bench) -> None:
    sandbox = with_mounts(bench.sandbox("true"), Mount("tmpfs", "tmpfs", "/proc/sys", asked=True))
    assert "because it is inside /proc" in bench.run(sandbox).failure.text


@pytest.mark.parametrize("kind", ["link", "file", "other device", "nothing"])
def test_cve_2025_31133_masked_files_are_masked_whatever_dev_null_is(bench: Bench, place: Path, kind: str) -> None:
    """A /dev/null that is a link to what is to be masked, or anything else but the device, masks nothing."""
    dev = place / "volume"
    if kind == "link":
        (dev / "null").symlink_to("/proc/sys/kernel/core_pattern")
    elif kind == "file":
        (dev / "null").write_text("not null")
    elif kind == "other device":
        os.mknod(dev / "null", 0o20666, os.makedev(1, 5))
    masked = [path for path in masks.MASKED_PATHS if os.path.isfile(path)]
    script = f"for p in {' '.join(masked)}; do head -c 100 $p; stat -c %t:%T $p; done"
    result = bench.run(without_dev(bench.sandbox("/bin/sh", "-c", script), dev))
    assert result.out.split() == ["1:3"] * len(masked), result
    if kind == "file":
        assert (dev / "null").read_text() == "not null"


@pytest.mark.parametrize("target", ["/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/kcore", "/etc"])
def test_cve_2025_52565_the_console_is_not_bound_through_a_link(bench: Bench, place: Path, target: str) -> None:
    """A /dev of the client's with a console that is a link: the terminal must not hide or unmask something in /proc."""
    dev = place / "volume"
    (dev / "console").symlink_to(target)
    (dev / "pts").mkdir()
    sandbox = without_dev(
        bench.sandbox("sh", "-c", "cat /proc/self/mountinfo; echo x > /proc/sysrq-trigger", tty=True), dev
    )
    own = Mount("devpts", "devpts", "/dev/pts", ("nosuid", "noexec"), "newinstance,ptmxmode=0666,mode=0620,gid=5")
    result = bench.run(with_mounts(sandbox, own))
    if not failed(result):
        lines = [line.split() for line in result.terminal.splitlines() if " - devpts " in line]
        assert all(line[4].startswith("/dev/") for line in lines), result
        assert "Read-only" in result.terminal


@pytest.mark.parametrize("kind", ["zero", "file", "link"])
def test_cve_2025_52565_the_terminal_is_made_of_a_real_ptmx(bench: Bench, place: Path, kind: str) -> None:
    """What a client's /dev calls ptmx is not opened unless it is the multiplexer: opening a device does things."""
    pts = place / "volume" / "pts"
    pts.mkdir()
    if kind == "zero":
        os.mknod(pts / "ptmx", 0o20666, os.makedev(1, 5))
    elif kind == "file":
        (pts / "ptmx").write_text("")
    else:
        (pts / "ptmx").symlink_to("/etc/passwd")
    result = bench.run(without_dev(bench.sandbox("true", tty=True), place / "volume"))
    assert result.failure.step == "devices" and "is not the ptmx device" in result.failure.text, result


def test_cve_2025_52881_kernel_parameters_are_not_written_through_the_containers_mounts(bench: Bench) -> None:
    """The host's own /proc is written to before the container's mounts are there, so none can lead the write astray."""
    name = "net.ipv4.ip_forward"
    before = Path("/proc/sys/net/ipv4/ip_forward").read_text()
    for wanted in ("1", "0"):
        sandbox = bench.sandbox("cat", "/proc/sys/net/ipv4/ip_forward", sysctls=((name, wanted),))
        result = bench.run(with_mounts(sandbox, Mount("tmpfs", "tmpfs", "/tmp/proc", asked=True)))
        assert result.out == f"{wanted}\n", result
    assert Path("/proc/sys/net/ipv4/ip_forward").read_text() == before


def test_a_source_can_no_longer_be_exchanged_once_it_is_opened(bench: Bench, place: Path) -> None:
    """What is mounted is the directory that was found, in the order of the mounts or not."""
    volume = place / "volume"
    (volume / "mark").write_text("mark")
    sandbox = with_mounts(
        bench.sandbox("sh", "-c", "ls /b; cat /b/secret; ls /a"),
        asked(place / "volume", "/a"),
        asked(place / "volume", "/b"),
    )
    result = bench.run(sandbox)
    assert result.out == "mark\nmark\n"


def test_no_descriptor_of_the_hosts_namespace_or_of_a_source_is_left(bench: Bench, place: Path) -> None:
    """CVE-2024-21626 by way of what mounts are made with."""
    sandbox = with_mounts(bench.sandbox("sh", "-c", "ls -l /proc/1/fd"), asked(place / "volume", "/in"))
    result = bench.run(sandbox)
    assert len([line for line in result.out.splitlines() if "->" in line]) == 3
    for number in range(3, 20):
        inside = with_mounts(bench.sandbox("ls", "-a", cwd=f"/proc/self/fd/{number}"), asked(place / "volume", "/in"))
        result = bench.run(inside)
        assert failed(result), result  # one of the numbers is that of the directory in which the next is to be made
