"""The daemon's options that containers, clients and the log notice, each from the outside."""

import contextlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness import inplace
from tests.harness.daemon import Daemon
from tests.harness.fixtures import running
from tests.harness.http import Connection
from tests.harness.listening import until
from tests.harness.plugin import Volumes

pytestmark = pytest.mark.usefixtures("busybox")


def named(name: str, place: Path, *words: str) -> subprocess.CompletedProcess:
    """Run the daemon's program under a name."""
    return subprocess.run([inplace.program(name, place), *words], capture_output=True, text=True, timeout=60)


def test_a_program_called_dockerd_checks_its_configuration_and_says_so_on_stderr(world) -> None:
    place = world.directory()
    file = place / "daemon.json"
    file.write_text('{"debug": true}')
    fine = named("dockerd", place, "--validate", "--config-file", str(file))
    assert (fine.returncode, fine.stdout, fine.stderr) == (0, "", "configuration OK\n")
    file.write_text('{"unknown-option": true}')
    wrong = named("dockerd", place, "--validate", "--config-file", str(file))
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert wrong.stderr == (
        f"unable to configure the Docker daemon with file {file}:"
        " the following directives don't match any configuration option: unknown-option\n"
    )


def test_each_name_has_a_version_and_a_help_of_its_own(world) -> None:
    place = world.directory()
    assert named("dockerd", place, "--version").stdout.startswith("Docker version ")
    assert named("engined", place, "--version").stdout.startswith("engine ")
    assert named("dockerd", place, "--help").stdout.startswith("Usage: dockerd [OPTIONS]\n")
    wrong = named("dockerd", place, "--nope")
    assert (wrong.returncode, wrong.stderr) == (
        *(1, "Status: unknown flag: --nope\nSee 'dockerd --help'., Code: 125\n"),
    )


@pytest.mark.parametrize("group", ["", "docker:x:4321:"], ids=["no group", "group"])
def test_a_daemon_called_dockerd_is_found_where_dockerd_is(world, group: str) -> None:
    """A link, with no option at all, on a host with dockerd's configuration file; the socket is its group's, if any."""
    place = world.directory()
    (place / "daemon.json").write_text('{"debug": true, "labels": ["a=b"], "iptables": false, "ip6tables": false}')
    (place / "group").write_text(f"root:x:0:\n{group}\n")
    dockerd = inplace.program("dockerd", place)
    assert dockerd.is_symlink()
    prepare = ("mkdir /etc/docker", f"cp {place}/group /etc", f"cp {place}/daemon.json /etc/docker")
    with inplace.running(world.machine(), place, dockerd, prepare) as root:
        assert (root / "var/lib/engine/engine.db").exists() and not (root / "var/lib/docker").exists()
        with Connection(root / "run/docker.sock") as connection:
            info = connection.request("GET", "/info").json()
        assert (info["Labels"], info["Debug"], info["DockerRootDir"]) == (["a=b"], True, "/var/lib/engine")
        status = (root / "run/docker.sock").stat()
        assert (status.st_gid, status.st_mode & 0o777) == (4321 if group else 0, 0o660)


def test_plugins_are_found_in_each_of_dockers_directories(world, tmp_path: Path) -> None:
    """By name: a socket, a spec and a JSON file that say where the socket is, each in a directory of its own."""
    place = world.directory()
    over = "mount -t overlay none -o lowerdir=/usr/lib,upperdir=/run/over,workdir=/run/work /usr/lib"
    prepare = (
        *(
            "mkdir -p /run/docker/plugins /etc/docker/plugins /run/over /run/work",
            over,
            "mkdir -p /usr/lib/docker/plugins",
        ),
        "echo unix:///run/second.sock > /etc/docker/plugins/second.spec",
        """echo '{"Name": "third", "Addr": "unix:///run/third.sock"}' > /usr/lib/docker/plugins/third.json""",
        """echo '{"iptables": false, "ip6tables": false}' > /etc/docker/daemon.json""",
    )
    sockets = {"first": "run/docker/plugins/first.sock", "second": "run/second.sock", "third": "run/third.sock"}
    with contextlib.ExitStack() as stack:
        dockerd = inplace.program("dockerd", place)
        root = stack.enter_context(inplace.running(world.machine(), place, dockerd, prepare))
        for name, path in sockets.items():
            plugin = stack.enter_context(Volumes(tmp_path / name).serving(root / path))
            with Connection(root / "run/docker.sock") as connection:
                body = {"Name": f"of-{name}", "Driver": name}
                answer = connection.request("POST", "/volumes/create", body)
            assert (answer.status, list(plugin.volumes)) == (201, [f"of-{name}"]), answer
        with Connection(root / "run/docker.sock") as connection:
            refused = connection.request("POST", "/volumes/create", {"Name": "x", "Driver": "fourth"})
        assert refused.status in (400, 404) and "fourth" in refused.message


def test_a_data_root_of_dockerd_is_refused_and_left_as_it_is(world) -> None:
    """A daemon would remove the directories of containers that it does not know."""
    daemon = world.daemon()
    kept = daemon.data_root / "containers" / ("a" * 64) / "config.v2.json"
    kept.parent.mkdir(parents=True)
    kept.write_text("{}")
    for name in ("image", "network"):
        (daemon.data_root / name).mkdir()
    daemon.start(wait=False)
    assert daemon.process.wait(60) == 1
    daemon.process = None
    assert "has the state of dockerd (image, network)" in daemon.log
    assert kept.read_text() == "{}"


@pytest.mark.parametrize("kind", ["data", "exec"])
def test_a_root_that_another_user_has_prepared_is_refused_and_left_as_it_is(world, kind: str) -> None:
    """Its directories may be links to anywhere; in a root of the daemon's own they may be left by an older daemon."""
    daemon = world.daemon()
    root, theirs = getattr(daemon, f"{kind}_root"), daemon.root / "theirs"
    theirs.mkdir(0o755)
    for owner, name in ((4711, "nothing"), (0, "containers")):
        root.mkdir(0o755, exist_ok=True)
        (root / name).symlink_to(theirs)
        os.chown(root, owner, owner)
        daemon.start(wait=False)
        assert daemon.process.wait(60) == 1
        daemon.process = None
        assert "cannot be used: it " in daemon.log.splitlines()[-1] and "Traceback" not in daemon.log
        assert theirs.stat().st_mode & 0o777 == 0o755 and not list(theirs.iterdir())
        assert [each.name for each in root.iterdir()] == [name]
        (root / name).unlink()


def test_what_changes_nothing_is_told_in_one_line(make_daemon: Callable[..., Daemon]) -> None:
    told = ("--containerd=/run/containerd/containerd.sock", "--raw-logs", "--firewall-backend=nftables")
    daemon = make_daemon(*told, "--storage-opt=overlay2.override_kernel_check=1")
    lines = [
        line.partition(" has no effect: ")[0].split()[-1] for line in daemon.log.splitlines() if "no effect" in line
    ]
    assert sorted(lines) == ["--containerd", "--firewall-backend", "--raw-logs", "--storage-opt"]


def test_containers_that_say_nothing_get_what_the_daemon_was_told(world, make_daemon: Callable[..., Daemon]) -> None:
    profile = world.directory() / "seccomp.json"
    deny = {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 95}
    profile.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [deny]}))
    daemon = make_daemon(
        *("--no-new-privileges", "--seccomp-profile", str(profile), "--default-shm-size", "1m"),
        *("--default-ipc-mode", "shareable", "--default-cgroupns-mode", "host", "--label", "a=b"),
    )
    daemon.import_busybox()
    assert daemon.shell("grep NoNewPrivs /proc/self/status").split() == ["NoNewPrivs:", "1"]
    assert daemon.shell("df -k /dev/shm | tail -1").split()[1] == "1024"
    assert b"not supported" in daemon.run("mkdir", "/x").stderr.lower()
    assert daemon.shell("readlink /proc/self/ns/cgroup") == os.readlink(f"/proc/{daemon.pid}/ns/cgroup")
    one = daemon.create("true")
    host = daemon.inspect(one)["HostConfig"]
    assert (host["IpcMode"], host["CgroupnsMode"], host["ShmSize"]) == ("shareable", "host", 1 << 20)
    info = daemon.request("GET", "/info").json()
    assert info["Labels"] == ["a=b"]
    assert {"name=no-new-privileges", f"name=seccomp,profile={profile}"} <= set(info["SecurityOptions"])
    said = {"NetworkMode": "none", "SecurityOpt": ["no-new-privileges=false", "seccomp=builtin"]}
    assert daemon.shell("mkdir /x && grep NoNewPrivs /proc/self/status", HostConfig=said).split()[-1] == "0"


def test_a_profile_that_is_none_keeps_the_daemon_from_starting(world) -> None:
    daemon = world.daemon(["--seccomp-profile", "/no/such"])
    daemon.start(wait=False)
    assert daemon.process.wait(60) == 1
    daemon.process = None
    assert "opening seccomp profile (/no/such) failed: no such file or directory" in daemon.log


def test_the_default_time_between_signal_and_kill_is_the_daemons(make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon("--default-stop-timeout", "0")
    daemon.import_busybox()
    one = daemon.create("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done")
    daemon.begin(one)
    until(lambda: b"ready" in daemon.logs(one))
    assert daemon.request("POST", f"/containers/{one}/stop", timeout=9).status == 204
    assert daemon.inspect(one)["State"]["ExitCode"] == 137


def test_the_log_is_json_where_that_is_asked_for(make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon("--log-format", "json")
    until(lambda: '"msg":"ready: ' in daemon.log)
    lines = [json.loads(line) for line in daemon.logged()]
    assert all({"level", "logger", "msg", "time"} <= line.keys() for line in lines)


def test_the_log_is_dockerds_under_its_name_and_where_that_is_asked_for(make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon("--log-format", "logfmt")
    until(lambda: 'level=info msg="ready: ' in daemon.log)
    assert all(line.startswith('time="20') and " level=" in line and " msg=" in line for line in daemon.logged())


def test_an_experimental_daemon_says_so_and_an_old_client_is_turned_away(
    world, make_daemon: Callable[..., Daemon]
) -> None:
    file = world.directory() / "daemon.json"
    file.write_text(
        '{"experimental": true, "features": {"buildkit": false}, "min-api-version": "1.40",'
        ' "report-version": "99.1.2-x"}'
    )
    daemon = make_daemon("--config-file", str(file))
    answer = daemon.request("GET", "/_ping")
    assert (answer.headers["docker-experimental"], answer.headers["builder-version"]) == ("true", "1")
    old = daemon.request("GET", "/v1.39/info")
    assert old.status == 400
    assert "Minimum supported API version is 1.40" in old.json()["message"]
    version = daemon.request("GET", "/version").json()
    assert (version["MinAPIVersion"], version["Version"], version["Components"][1]["Version"]) == (
        *("1.40", "99.1.2-x", "99.1.2-x"),
    )
    assert daemon.request("GET", "/info").json()["ServerVersion"] == "99.1.2-x"
    assert answer.headers["server"] == "Docker/99.1.2-x (linux)"


def test_a_daemon_with_vfs_copies(world) -> None:
    daemon = world.daemon(["--storage-driver", "vfs"])
    with running(daemon):
        info = daemon.request("GET", "/info").json()
        assert (info["Driver"], info["DriverStatus"][0][0]) == ("vfs", "Backing Filesystem")


def test_a_daemon_with_overlay2_has_what_monitors_look_for(world) -> None:
    """The name of the driver everywhere, and the file in which cAdvisor looks for the name of a container's layer."""
    daemon = world.daemon()
    with running(daemon):
        info = daemon.request("GET", "/info").json()
        assert (info["Driver"], info["DriverStatus"][0]) == (
            *("overlayfs", ["driver-type", "io.containerd.snapshotter.v1"]),
        )
        daemon.import_busybox()
        older = daemon.create("true")
        assert not (daemon.data_root / "image").exists()
        daemon.kill9()
        daemon.options = [*daemon.options, "--storage-driver", "overlay2"]
        for _ in range(2):
            daemon.start()
            info = daemon.request("GET", "/info").json()
            assert (info["Driver"], info["DriverStatus"][0][0]) == ("overlay2", "Backing Filesystem")
            one = daemon.create("sh", "-c", "echo x > /file")
            mounts = daemon.data_root / "image/overlay2/layerdb/mounts"
            for each in (older, one):
                assert (mounts / each / "mount-id").read_text() == each
            daemon.begin(one)
            assert daemon.wait(one) == 0
            shown = daemon.inspect(one)
            assert shown["Driver"] == shown["GraphDriver"]["Name"] == "overlay2" and "Storage" not in shown
            data = shown["GraphDriver"]["Data"]
            assert Path(data["UpperDir"], "file").read_text() == "x\n"
            assert Path(data["LowerDir"].split(":")[0], "bin").is_dir()
            for version in ("", "/v1.44"):
                image = daemon.request("GET", f"{version}/images/busybox/json").json()
                assert image["GraphDriver"]["Name"] == "overlay2"
            daemon.remove(one)
            until(lambda gone=mounts / one: not gone.exists())
            daemon.kill9()
        daemon.start()
