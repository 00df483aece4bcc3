"""Hooks of CDI devices in a container of the engine's own: run where the OCI runtime specification has them run."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness import frames, users
from tests.harness.daemon import Daemon
from tests.harness.fixtures import World, running

pytestmark = pytest.mark.root

KIND = "nvidia.com/gpu"
# As NVIDIA's own hooks do it: it finds the container's files by its bundle.
PROGRAM = """#!/usr/bin/env python3
import json, os, sys
state = json.load(sys.stdin)
with open(state["bundle"] + "/config.json") as file:
    config = json.load(file)
root = config["root"]["path"]
with open(root + "/hooked", "a") as file:
    os.environ.pop("LC_CTYPE", "")  # which this Python has set
    print(*sys.argv[1:], sorted(os.environ.items()), state["status"], os.readlink("/proc/self/ns/mnt"), file=file)
with open(root + "/state", "w") as file:
    print(state["id"], os.path.exists(f"/proc/{state['pid']}"), config["process"]["args"], file=file)
"""

RIGHTS = "grep -E 'Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp:' /proc/self/status"


def hook(path: object, *args: str, point: str = "createContainer", **more: object) -> dict:
    return {"hookName": point, "path": str(path), "args": [Path(str(path)).name, *args], **more}


@pytest.fixture(scope="module")
def place(world: World) -> Path:
    """A directory with the program, and a CDI file."""
    made = world.directory()
    program = made / "program"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    inside = "echo inside >> /started; cat >> /started"
    devices = {
        "all": [
            hook(program, "one", env=["PATH=/usr/bin:/bin", "A=b"]),
            hook(program, "two", env=["PATH=/bin:/usr/bin"]),
        ],
        "inside": [hook("/bin/sh", "-c", inside, point="startContainer", env=["PATH=/bin"])],
        "rights": [hook("/bin/sh", "-c", f"{RIGHTS} > /tmp/rights", point="startContainer", env=["PATH=/bin"])],
        "failing": [hook("/bin/sh", "-c", "echo what was wrong; exit 3")],
        "missing": [hook("/no/such/program")],
        "slow": [hook("/bin/sleep", "60", timeout=1)],
        "hungry": [hook("/bin/sh", "-c", "head -c 10000000 /dev/zero; exit 1")],
    }
    document = {
        "cdiVersion": "0.6.0",
        "kind": KIND,
        "devices": [{"name": name, "containerEdits": {"hooks": hooks}} for name, hooks in devices.items()],
    }
    (made / "gpu.json").write_text(json.dumps(document))
    return made


@pytest.fixture(scope="module")
def equipped(world: World, place: Path) -> Iterator[Daemon]:
    """A daemon that reads that directory."""
    with running(world.daemon([f"--cdi-spec-dir={place}"])) as daemon:
        daemon.import_busybox()
        yield daemon


def asking(name: str, **more: object) -> dict:
    return {"NetworkMode": "none", "DeviceRequests": [{"Driver": "cdi", "DeviceIDs": [f"{KIND}={name}"]}], **more}


@pytest.fixture
def refused(equipped: Daemon) -> Callable[[str], str]:
    """Why a container with this device does not start; nothing of it is left."""

    def start(name: str) -> str:
        one = equipped.create("true", HostConfig=asking(name))
        answer = equipped.request("POST", f"/containers/{one}/start")
        assert answer.status == 500, answer
        assert bundles(equipped) == []
        equipped.remove(one)
        return answer.message

    return start


def bundles(daemon: Daemon) -> list[str]:
    directory = daemon.exec_root / "runtimes"
    return [each.name for each in directory.iterdir()] if directory.is_dir() else []


def test_hooks_of_the_host_see_the_containers_files_before_it_runs(equipped: Daemon) -> None:
    """In their order, with their own variables alone, in its mount namespace; `--gpus all` asks for them."""
    gpus = {"NetworkMode": "none", "DeviceRequests": [{"Count": -1, "Capabilities": [["gpu"]]}]}
    one = equipped.create("sh", "-c", "cat /hooked /state; readlink /proc/self/ns/mnt", HostConfig=gpus)
    equipped.begin(one)
    equipped.wait(one)
    first, second, state, namespace = frames.stdout(equipped.logs(one)).decode().splitlines()
    assert "one [('A', 'b'), ('PATH', '/usr/bin:/bin')] creating" in first
    assert "two [('PATH', '/bin:/usr/bin')] creating" in second
    assert first.split()[-1] == second.split()[-1] in namespace
    assert f"{one} True ['sh', '-c'" in state
    equipped.remove(one)
    assert bundles(equipped) == []


def test_hooks_of_the_container_are_its_own_programs(equipped: Daemon) -> None:
    started = equipped.shell("cat /started", HostConfig=asking("inside")).splitlines()
    assert started[0] == "inside"
    state = json.loads(started[1])
    assert (state["status"], state["pid"]) == ("created", 1)


@pytest.mark.parametrize(
    "asked", [{}, {"CapAdd": ["SYS_ADMIN"], "CapDrop": ["CHOWN"]}, {"SecurityOpt": ["no-new-privileges"]}]
)
def test_hooks_of_the_container_have_its_rights(equipped: Daemon, asked: dict) -> None:
    """The image has brought them."""
    script = f"{RIGHTS} > /tmp/own; diff /tmp/own /tmp/rights && grep Seccomp: /tmp/own"
    assert equipped.shell(script, HostConfig=asking("rights", **asked), User="7:8") == "Seccomp:\t2"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("failing", "error running createContainer hook #0: exit status 3, stdout: what was wrong"),
        ("missing", "error running createContainer hook #0: exit status 125, stdout: /no/such/program: no such file"),
        ("slow", "error running createContainer hook #0: hook ran past specified timeout of 1.0s"),
        ("hungry", "error running createContainer hook #0: exit status 1"),
    ],
)
def test_a_hook_that_fails_ends_the_start(refused: Callable[[str], str], name: str, words: str) -> None:
    message = refused(name)
    assert words in message
    assert len(message) < 2000


def test_no_hooks_in_a_user_namespace(world: World, place: Path) -> None:
    if not Path("/etc/subuid").exists():
        pytest.skip("needs /etc/subuid: apt-get install passwd")
    options = [f"--cdi-spec-dir={place}", f"--userns-remap={users.NAME}"]
    with running(Daemon(world.directory(), world.user_machine(), options)) as daemon:
        daemon.import_busybox()
        one = daemon.create("true", HostConfig=asking("all"))
        answer = daemon.request("POST", f"/containers/{one}/start")
        assert (answer.status, "--userns-remap" in answer.message) == (501, True)
