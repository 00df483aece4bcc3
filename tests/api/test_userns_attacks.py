"""`--userns-remap`: what root of such a container tries against the host and the engine, with all its rights."""

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import contexts, execs, frames, users
from tests.harness.contexts import Member
from tests.harness.daemon import Daemon
from tests.harness.fixtures import World, running
from tests.harness.listening import until

pytestmark = [pytest.mark.root, pytest.mark.seldom]

OPTION = f"--userns-remap={users.NAME}"
UNMAPPED = 65534


@pytest.fixture(scope="module")
def remapped(world: World) -> Iterator[Daemon]:
    """A daemon whose containers have the ids of a user who has subordinate ones."""
    if not Path("/etc/subuid").exists():
        pytest.skip("needs /etc/subuid: apt-get install passwd")
    daemon = Daemon(world.directory(), world.user_machine(), [OPTION])
    with running(daemon):
        daemon.import_busybox()
        yield daemon


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """A directory of the host with a file that nobody but root may read; and one in a directory that is closed."""
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "secret").chmod(0o600)
    (tmp_path / "closed" / "open").mkdir(parents=True)
    (tmp_path / "closed" / "open" / "file").write_text("secret")
    (tmp_path / "closed").chmod(0o700)
    tmp_path.chmod(0o755)
    return tmp_path


@pytest.fixture
def attacker(remapped: Daemon, closed: Path) -> Iterator[str]:
    """A container with all capabilities of its user namespace, which sees that directory."""
    rights = {"CapAdd": ["ALL"], "SecurityOpt": ["seccomp=unconfined", "apparmor=unconfined"], "GroupAdd": ["7"]}
    made = remapped.create("sleep", "1000", HostConfig={"NetworkMode": "none", "Binds": [f"{closed}:/h"], **rights})
    remapped.begin(made)
    yield made
    remapped.remove(made)


@pytest.mark.parametrize(
    "change", ["rm /dev/null && ln -s /h/secret /dev/null", "mkfifo /f && mount --bind /f /dev/null"]
)
def test_an_exec_opens_no_file_that_the_container_could_not(
    remapped: Daemon, attacker: str, closed: Path, change: str
) -> None:
    """The null device of an exec without a client's input is opened with the host's rights."""
    assert execs.run(remapped, attacker, "sh", "-c", f"cat /h/secret; {change}").code == 0
    said = execs.run(remapped, attacker, "sh", "-c", "cat; echo more >&0")
    assert (said.code, said.out) == (0, "")
    assert (closed / "secret").read_text() == "secret"


def test_an_exec_has_the_groups_of_the_container(remapped: Daemon, attacker: str) -> None:
    """And none of the daemon's, whatever a /proc says that the container has mounted."""
    script = "mount -t tmpfs none /proc && mkdir /proc/self && echo deny > /proc/self/setgroups"
    assert execs.run(remapped, attacker, "sh", "-c", script).code == 0
    said = execs.run(remapped, attacker, "id", "-G", User="5:6").out
    assert said == "6 7\n"


def test_no_working_directory_is_entered_or_made_with_the_hosts_rights(
    remapped: Daemon, attacker: str, closed: Path
) -> None:
    """An image may name one in a bind."""
    assert execs.run(remapped, attacker, "cat", "file", WorkingDir="/h/closed/open").code == 126
    for place in ("/h/closed/open", "/h/new"):
        host = {"NetworkMode": "none", "Binds": [f"{closed}:/h"]}
        made = remapped.create("cat", "file", WorkingDir=place, HostConfig=host)
        answer = remapped.request("POST", f"/containers/{made}/start")
        assert (answer.status, "permission denied" in answer.message) == (500, True)
        remapped.remove(made)
    assert sorted(each.name for each in closed.iterdir()) == ["closed", "secret"]


@pytest.mark.parametrize("target", ["/h/new", "/link/new", "/link"])
def test_no_place_of_a_mount_is_made_with_the_hosts_rights(remapped: Daemon, closed: Path, target: str) -> None:
    """An image may ask for a volume in a bind, also by a link."""
    remapped.import_image(contexts.archive(Member("link", kind=tarfile.SYMTYPE, link="h/new")), "linked:latest")
    host = {"NetworkMode": "none", "Binds": [f"{closed}:/h", f"/tmp:{target}"]}
    made = remapped.create("true", Image="linked", HostConfig=host)
    answer = remapped.request("POST", f"/containers/{made}/start")
    assert (answer.status, "permission denied" in answer.message) == (500, True)
    assert sorted(each.name for each in closed.iterdir()) == ["closed", "secret"]
    remapped.remove(made)


def test_a_place_of_a_mount_below_the_directory_of_a_user(remapped: Daemon, attacker: str) -> None:
    """The container's root may make it."""
    execs.run(remapped, attacker, "sh", "-c", "mkdir -m 700 /own && chown 5:5 /own")
    assert remapped.request("POST", f"/commit?container={attacker}&repo=owned").status == 201
    host = {"NetworkMode": "none", "Binds": ["own:/own/new/one"], "Tmpfs": {"/own/two": ""}}
    said = remapped.shell("stat -c %u /own /own/new /own/new/one /own/two", Image="owned", HostConfig=host).split()
    assert said == ["5", "0", "0", "0"]
    remapped.request("DELETE", "/volumes/own")


def test_a_working_directory_of_a_user(remapped: Daemon, attacker: str) -> None:
    """The container's root may enter it, and make one in it; also where the root is read-only."""
    execs.run(remapped, attacker, "sh", "-c", "mkdir -m 700 /own && chown 5:5 /own")
    assert execs.run(remapped, attacker, "pwd", WorkingDir="/own", User="5").out == "/own\n"
    assert remapped.request("POST", f"/commit?container={attacker}&repo=owned").status == 201
    assert remapped.shell("pwd; stat -c %u .", Image="owned", WorkingDir="/own/new") == "/own/new\n0"
    host = {"NetworkMode": "none", "ReadonlyRootfs": True}
    assert remapped.shell("pwd; stat -c %u .", WorkingDir="/new/one", HostConfig=host) == "/new/one\n0"


def test_a_link_out_of_a_volume_leads_to_what_is_the_hosts(remapped: Daemon, closed: Path) -> None:
    """Whoever is asked to bind a part of a volume by its path follows what a container has put there."""
    volume = {"NetworkMode": "none", "Binds": ["linked:/v"]}
    remapped.shell(f"mkdir /v/plain && ln -s {closed} /v/link", HostConfig=volume)
    place = f"{remapped.data_root}/volumes/linked/_data"
    for path, owner in ((f"{place}/plain", 0), (f"{place}/link", UNMAPPED)):
        host = {"NetworkMode": "none", "Mounts": [{"Type": "bind", "Source": path, "Target": "/x"}]}
        assert remapped.shell("stat -c %u /x; cat /x/secret 2> /dev/null || true", HostConfig=host) == str(owner)
    remapped.request("DELETE", "/volumes/linked")


@pytest.mark.parametrize("name", ["containers", "containers/../containers", "volumes/../containers", "."])
def test_a_bind_of_the_engines_own_files(remapped: Daemon, name: str) -> None:
    """Who could write to them would be root of the host with the next start."""
    source = f"{remapped.data_root}/{name}"
    host = {"NetworkMode": "none", "Mounts": [{"Type": "bind", "Source": source, "Target": "/x"}]}
    assert remapped.shell("stat -c %u /x; touch /x/y 2> /dev/null || true", HostConfig=host) == str(UNMAPPED)


@pytest.mark.parametrize("mode", ["", "host"])
@pytest.mark.parametrize("maps", ["", "r"])
def test_a_process_1_that_makes_a_user_namespace(remapped: Daemon, mode: str, maps: str) -> None:
    """Execs and copies know the container's ids, and not those that its process 1 has chosen."""
    host = {"NetworkMode": "none", "UsernsMode": mode, "CapAdd": ["ALL"], "SecurityOpt": ["seccomp=unconfined"]}
    made = remapped.create("unshare", f"-U{maps}", "sleep", "1000", HostConfig=host)
    remapped.begin(made)
    until(lambda: execs.run(remapped, made, "cat", "/proc/1/cmdline").out.startswith("sleep"))
    said = execs.run(remapped, made, "sh", "-c", "id -u; cat /proc/self/uid_map; touch /x; stat -c %u /x")
    inside = remapped.shell("cat /proc/self/uid_map", HostConfig={"NetworkMode": "none", "UsernsMode": mode})
    assert said.out.split() == ["0", *inside.split(), "0"]
    body = contexts.archive(Member("in", "x", uid=5, gid=6))
    headers = {"Content-Type": "application/x-tar"}
    assert remapped.request("PUT", f"/containers/{made}/archive?path=/", body, headers).status == 200
    copied = remapped.request("GET", f"/containers/{made}/archive?path=/in").body
    with tarfile.open(fileobj=io.BytesIO(copied)) as archive:
        assert [(each.uid, each.gid) for each in archive] == [(5, 6)]
    guest = remapped.create("cat", "/proc/self/uid_map", HostConfig={"NetworkMode": f"container:{made}"})
    answer = remapped.request("POST", f"/containers/{guest}/start")
    assert answer.status == (500 if mode else 204)
    if not mode:
        remapped.wait(guest)
        assert frames.stdout(remapped.logs(guest)).decode().split() == inside.split()
    for each in (guest, made):
        remapped.remove(each)
