"""Hostile images: what their files, links and configuration make an engine do when it loads, shows or runs them.

Each test is named after the published flaw it repeats. The image comes by POST /images/load, as it would from a
registry; `bait` sees whether anything of the host was touched.
"""

import json
import os
import re
import tarfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.harness import execs, leaks, rootfs
from tests.harness.daemon import Daemon
from tests.harness.listening import until
from tests.sandbox.bait import SECRET
from tests.unit.images import made
from tests.unit.images.made import MadeImage, archive, directory, link, member, symlink

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("busybox")]

TAR = {"Content-Type": "application/x-tar"}
PATH = "PATH=/bin"
UP = "../" * 12


@pytest.fixture
def image(daemon: Daemon) -> Iterator[Callable[..., str]]:
    """Load busybox with more members on top, and a configuration: `image(symlink("dev", "/x"), User="7")` is its name.

    What it has of the same name takes the place of what busybox has.
    """
    names: list[str] = []

    def load(*members: tuple, **config: object) -> str:
        names.append(f"hostile:{len(names)}")
        whole = MadeImage(rootfs.busybox(), archive(*members), config={"Env": [PATH], **config})
        answer = daemon.request("POST", "/images/load", made.docker_archive(whole, names[-1:]), TAR)
        assert answer.status == 200 and "error" not in answer.lines[-1], answer
        return names[-1]

    yield load
    for name in names:
        daemon.request("DELETE", f"/images/{name}?force=1")


@pytest.fixture
def attempt(daemon: Daemon, container: Callable[..., str]) -> Callable[..., tuple[str, str]]:
    """Create, start and wait for: what it said, or why it did not start. Either is an answer to an attack."""

    def run(name: str, *argv: str, **body: object) -> tuple[str, str]:
        one = container(*argv, Image=name, **body)
        answer = daemon.request("POST", f"/containers/{one}/start")
        if answer.status != 204:
            return "", answer.message
        daemon.wait(one)
        return daemon.logs(one).decode(errors="replace"), ""

    return run


def test_cve_2022_23648_a_volume_is_filled_with_nothing_of_the_host(
    daemon: Daemon, image: Callable, attempt: Callable, bait: Path
) -> None:
    """Its path climbs, or is a link that leads out, as a whole or on the way."""
    climbing, within, below = f"/{UP}..{bait}", "/data", "/over/secret/"
    name = image(
        symlink("data", str(bait)),
        symlink("over", f"{UP}{bait}"),
        Volumes={climbing: {}, within: {}, below: {}, f"/x/{UP}{bait}": {}},
    )
    script = f"ls -R /data {bait} /over/ 2>&1; cat {bait}/secret /data/secret /over/secret"
    said, refused = attempt(name, "sh", "-c", script)
    assert SECRET not in said and (said or refused)
    for found in (daemon.data_root / "volumes").rglob("secret"):
        assert not found.is_file(), found


@pytest.mark.parametrize("tty", [False, True])
def test_cve_2026_41579_a_dev_that_is_a_link_leads_nowhere(
    image: Callable, attempt: Callable, bait: Path, tty: bool
) -> None:
    """runc deleted and made files behind it before it had left the host's root."""
    name = image(symlink("dev", str(bait)))
    said, refused = attempt(name, "sh", "-c", "[ -c /dev/null ] && echo fine", Tty=tty)
    assert "fine" in said or refused
    name = image(symlink("dev", f"{UP}{bait}"))
    attempt(name, "true", Tty=tty)


@pytest.mark.parametrize("tty", [False, True])
def test_cve_2026_88264_and_88265_no_node_of_dev_is_the_images(
    image: Callable, attempt: Callable, bait: Path, tty: bool
) -> None:
    """crun made /dev/console behind the image's link, and gave what its /dev/null led to, to the container's user."""
    name = image(
        symlink("dev/console", f"{bait}/planted"),
        symlink("dev/null", f"{bait}/secret"),
        symlink("dev/ptmx", f"{UP}{bait}/planted"),
        symlink("dev/shm", str(bait)),
        User="1000",
    )
    said, refused = attempt(name, "sh", "-c", "[ -c /dev/null ] && ls -l /dev/", Tty=tty)
    assert not refused and str(bait) not in said
    assert os.listdir(bait) == ["secret"]


@pytest.mark.parametrize("where", ["etc", "etc/hosts", "proc", "sys"])
def test_cve_2024_5154_what_the_engine_puts_into_a_container_is_not_put_on_the_host(
    image: Callable, attempt: Callable, bait: Path, where: str
) -> None:
    """/etc/hosts, resolv.conf and hostname, its /proc and /sys, where the image has a link out."""
    for target in (str(bait), f"{UP}{bait}/new"):
        said, refused = attempt(image(symlink(where, target)), "sh", "-c", f"cat {bait}/secret /{where}/secret")
        assert SECRET not in said and (said or refused)


def test_cve_2026_55686_a_working_directory_behind_a_link_is_made_inside(
    daemon: Daemon, image: Callable, attempt: Callable, bait: Path
) -> None:
    """Neither made on the host nor given away there, for whatever user."""
    for target in (str(bait), f"{UP}{bait}"):
        name = image(symlink("link", target), WorkingDir="/link/new/deeper", User="1000:1000")
        said, refused = attempt(name, "sh", "-c", "pwd -P; ls -d . /link/secret")
        assert refused or str(bait) in said
        assert os.listdir(bait) == ["secret"]


def test_cve_2016_3697_and_2026_46680_a_number_is_nobodys_name(
    daemon: Daemon, image: Callable, attempt: Callable, container: Callable
) -> None:
    """The image's passwd has users whose names are numbers, and who are root."""
    numbers = ("1000", "2147483648", "4294967296", "18446744073709551616", "9" * 40)
    passwd = "".join(f"{number}:x:0:0::/:/bin/sh\n" for number in numbers)
    group = "".join(f"{number}:x:0:{number}\n" for number in numbers)
    name = image(member("etc/passwd", passwd.encode()), member("etc/group", group.encode()))
    assert "uid=1000 gid=0" in attempt(name, "id", User="1000")[0].replace("(1000)", "").replace("(root)", "")
    for number in numbers[1:]:
        for user in (number, f"1000:{number}", f"0x0{number}"):
            said, refused = attempt(name, "id", User=user)
            assert not said and re.search("must be in range|unable to find user", refused), (said, refused)
    # An exec goes another way (CVE-2018-9862).
    one = container("sleep", "600", Image=name)
    daemon.begin(one)
    assert execs.shell(daemon, one, "id -u; id -G", User="1000").split() == ["1000", "0"]
    for number in numbers[1:]:
        answer = daemon.request("POST", f"/containers/{one}/exec", {"Cmd": ["id"], "User": number})
        assert answer.status == 400 and "must be in range" in answer.message


def test_cve_2025_4437_and_2026_47262_huge_lists_of_users_take_no_memory(
    daemon: Daemon, container: Callable[..., str]
) -> None:
    """A passwd of gigabytes of holes, and a group file of more groups than any process can have."""
    script = "truncate -s 4G /etc/passwd && truncate -s 4G /etc/group && touch /ready; sleep 600"
    one = container("sh", "-c", script)
    daemon.begin(one)
    until(lambda: daemon.request("HEAD", f"/containers/{one}/archive?path=/ready").status == 200)
    Path(f"/proc/{daemon.pid}/clear_refs").write_text("5")
    before = peak(daemon)
    answer = daemon.request("POST", f"/containers/{one}/exec", {"Cmd": ["id"], "User": "somebody"})
    assert answer.status == 400 and "unable to find user" in answer.message
    # No shell, which would read the list itself.
    said = execs.run(daemon, one, "grep", "Uid", "/proc/self/status", User="1000")
    assert said.out.split()[1] == "1000", said
    groups = "".join(f"g{number}:x:{number}:many\n" for number in range(1, 70_000))
    lists = archive(member("passwd", b"many:x:7:7::/:\n"), member("group", groups.encode()))
    assert daemon.request("PUT", f"/containers/{one}/archive?path=/etc", lists, TAR).status == 200
    said = execs.run(daemon, one, "id", "-u", User="many")
    assert said.code != 0 or said.out == "7\n"
    assert peak(daemon) - before < 64 << 10


def peak(daemon: Daemon) -> int:
    """The most memory that the daemon has had since it was last forgotten, in KB."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{daemon.pid}/status").read_text())[1])


ODD = {
    "no times": {"created": None, "history": [{"created": None}, {"created": ""}, {}]},
    "no history": {"history": None},
    "nothing in history": {"history": [None, None]},
    "more history than layers": {"history": [{"created_by": "x"}] * 9},
    "no config": {"config": None},
    "lists for maps": {"config": {"Labels": [], "Volumes": [], "ExposedPorts": []}},
    "maps for lists": {"config": {"Env": {}, "Cmd": {}, "Entrypoint": {}}},
    "numbers": {"config": {"User": 5, "WorkingDir": 5, "Env": [5]}, "created": 5},
    "far times": {"created": "9999999999-01-01T00:00:00Z"},
    "no root": {"rootfs": None},
    "no layers": {"rootfs": {"type": "layers", "diff_ids": None}},
    "a tree of no depth": {"config": {"Healthcheck": {"Test": None, "Interval": -1}}},
}


@pytest.mark.parametrize("odd", ODD)
def test_cve_2024_36620_and_2021_21285_odd_documents_end_in_words(daemon: Daemon, odd: str) -> None:
    """Whatever a config lacks: it is refused when it is loaded, or can be listed, shown, run and removed."""
    whole = MadeImage(archive(directory("d")))
    document = {**json.loads(whole.config), **ODD[odd]}
    whole.config = json.dumps(document).encode()
    answer = daemon.request("POST", "/images/load", made.docker_archive(whole, ["odd:1"]), TAR)
    assert answer.status in (200, 400), answer
    if answer.status == 200 and "error" not in answer.lines[-1]:
        for path in ("images/odd:1/history", "images/odd:1/json", "images/json?all=1", "system/df", "images/odd:1/get"):
            found = daemon.request("GET", f"/{path}", checked=False)
            of_others = path.endswith("history") and "the size of the layer" in found.body.decode(errors="replace")
            assert found.status == 200 or of_others, (path, found)
        created = daemon.request("POST", "/containers/create", {"Image": "odd:1", "Cmd": ["x"]})
        assert created.status in (201, 400), created
        if created.status == 201:
            daemon.remove(created.json()["Id"])
        assert daemon.request("DELETE", "/images/odd:1?force=1").status == 200
    assert "Traceback" not in daemon.log[-20_000:]


def test_cve_2021_32760_no_mode_and_no_owner_of_the_host_is_changed(
    daemon: Daemon, image: Callable, bait: Path
) -> None:
    """A hard link to a link, its mode and owner; a directory or file where a layer below has a link out."""
    bad = {"mode": 0o4777, "uid": 4242, "gid": 4242, "mtime": 1}
    below = [symlink("s", f"{bait}/secret"), symlink("d", str(bait)), symlink("r", f"{UP}{bait}")]
    hard = link("h", "s")
    for key, value in bad.items():
        setattr(hard[0], key, value)
    above = [
        member("d/planted", b"x", **bad),
        member("r/secret", b"overwritten", **bad),
        member("s", type=tarfile.CHRTYPE, devmajor=1, devminor=3, **bad),
        member("d", type=tarfile.DIRTYPE, **bad),
    ]
    first = archive(*below)
    for layers in ([archive(*below, hard)], [first, archive(hard)], *([first, archive(each)] for each in above)):
        whole = MadeImage(*layers)
        daemon.request("POST", "/images/load", made.docker_archive(whole, ["modes:1"]), TAR)
        daemon.request("DELETE", "/images/modes:1?force=1")
    daemon.request("POST", "/images/create?fromSrc=-&repo=modes", archive(*below, hard, *above), TAR)
    daemon.request("DELETE", "/images/modes:latest?force=1")


def test_cve_2021_20291_and_2026_114236_broken_layers_end_and_leave_nothing_open(daemon: Daemon) -> None:
    """Neither a hang nor a descriptor a layer: no tar, no gzip after its head, xz and zstd that are none, cut."""
    good = archive(member("a", b"1" * 5000))
    heads = (b"no tar at all", b"\x1f\x8b\x08", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"BZh9")
    broken = [good[:700], *(head + b"x" * 2000 for head in heads)]

    def load() -> None:
        for layer in broken:
            whole = MadeImage(layer)
            answer = daemon.request("POST", "/images/load", made.docker_archive(whole, ["broken:1"]), TAR)
            last = answer.lines[-1]
            assert answer.status == 200 and ("error" in last or "Error unpacking" in last["stream"]), answer
            if "error" not in last:  # it is a tar by no byte, and kept for its blobs
                assert daemon.request("DELETE", "/images/broken:1").status == 200

    load()
    before = len(os.listdir(f"/proc/{daemon.pid}/fd"))
    for _ in range(3):
        load()
    # A request's own descriptors go soon after its answer.
    until(lambda: len(os.listdir(f"/proc/{daemon.pid}/fd")) <= before + 2)


def test_cve_2020_14370_and_2021_21334_no_container_has_anothers_environment(daemon: Daemon) -> None:
    """Many made at once from one image."""

    def run(number: int) -> list[str]:
        said = daemon.run("env", Env=[f"MINE=secret-{number}", f"ONLY_{number}=1"])
        return re.findall(r"secret-\d+|ONLY_\d+", said.stdout.decode())

    with ThreadPoolExecutor(6) as pool:
        for number, found in enumerate(pool.map(run, range(18))):
            assert sorted(found) == [f"ONLY_{number}", f"secret-{number}"]


def test_cve_2026_57231_no_variable_of_the_host_comes_into_a_container(
    daemon: Daemon, image: Callable, attempt: Callable
) -> None:
    """An image that names variables without a value, or with a pattern: a client may fill those in, an engine not."""
    secret = os.environ[leaks.TOKEN_VARIABLE]
    assert secret.encode() in Path(f"/proc/{daemon.pid}/environ").read_bytes(), "the daemon has it"
    name = image(Env=[PATH, leaks.TOKEN_VARIABLE, f"{leaks.TOKEN_VARIABLE[:4]}*", "*", f"A=${leaks.TOKEN_VARIABLE}"])
    for body in ({}, {"Env": [leaks.TOKEN_VARIABLE, "*"]}):
        said, refused = attempt(name, "sh", "-c", "env; cat /proc/1/environ", **body)
        assert secret not in said and "PATH" in said, refused
