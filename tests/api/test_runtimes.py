"""Containers of other OCI runtimes (crun, runc): what holds for the engine's own holds for them."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.daemon import Daemon
from tests.harness.fixtures import running
from tests.harness.listening import until
from tests.harness.namespaces import Namespaces

pytestmark = [pytest.mark.seldom, pytest.mark.usefixtures("busybox")]

NAMES = ("crun", "runc")
# crun refuses a host that has both versions of cgroups, with controllers in the second one: here it is a host with one.
OTHER_CGROUPS = "/sys/fs/cgroup/unified"


def one_version(machine: Namespaces) -> Namespaces:
    """The machine, without the other version of cgroups."""
    if os.path.ismount(OTHER_CGROUPS):
        subprocess.run(machine.command(["umount", "--lazy", OTHER_CGROUPS]), check=True)
    return machine


@pytest.fixture(scope="module")
def chosen(world) -> Iterator[Daemon]:
    """A daemon that knows the runtimes that are here, as `odd-NAME`."""
    machine = one_version(world.machine())
    options = [f"--add-runtime=odd-{name}={path}" for name in NAMES if (path := shutil.which(name)) is not None]
    with running(world.daemon(options, machine)) as daemon:
        daemon.import_busybox()
        yield daemon


@pytest.fixture(params=NAMES)
def runtime(request: pytest.FixtureRequest, chosen: Daemon) -> str:
    """The name of one of them."""
    name = f"odd-{request.param}"
    if name not in chosen.request("GET", "/info").json()["Runtimes"]:
        pytest.skip(f"needs {request.param}: apt-get install {request.param}")
    return name


def host(runtime: str, **more: object) -> dict:
    """The HostConfig of a container of this runtime."""
    return {"NetworkMode": "none", "Runtime": runtime, **more}


def nothing_left(daemon: Daemon, container: str) -> bool:
    """Whether there is no bundle any more, and no cgroup of this container's; other daemons' may be there."""
    name = f"engine-runtimes/{container[:12]}*"
    cgroups = [*Path("/sys/fs/cgroup").glob(name), *Path("/sys/fs/cgroup").glob(f"*/{name}")]
    return not os.listdir(daemon.exec_root / "runtimes") and not cgroups


def test_a_container_says_what_it_is_told_and_ends_as_it_wants(chosen: Daemon, runtime: str) -> None:
    output = chosen.run("sh", "-c", "echo out; echo err >&2; exit 3", HostConfig=host(runtime))
    assert output == (3, b"out\n", b"err\n")


def test_it_is_confined_as_the_engines_own(chosen: Daemon, runtime: str) -> None:
    script = (
        "echo $$; id -u; id -G; hostname; pwd; grep -E 'CapEff|Seccomp:|NoNewPrivs' /proc/self/status;"
        " ls /dev; cat /proc/kcore | wc -c; echo x > /proc/sys/kernel/domainname; echo $HOME; readlink /proc/1/ns/net"
    )
    more = {"SecurityOpt": ["no-new-privileges"], "CapDrop": ["CHOWN"], "GroupAdd": ["7"]}
    asked = {"Hostname": "odd", "User": "5:6", "WorkingDir": "/made/here"}
    theirs, ours = (
        chosen.run("sh", "-c", script, HostConfig=host(name, **more), **asked) for name in (runtime, "runc")
    )
    own_lines, lines = ours.stdout.decode().splitlines(), theirs.stdout.decode().splitlines()
    assert [set(lines) - set(own_lines) - {"core"}] == [{lines[-1]}]
    assert set(own_lines) - set(lines) <= {own_lines[-1]}
    assert b"Read-only file system" in theirs.stderr


def test_it_is_stopped_killed_executed_in_copied_and_counted(chosen: Daemon, runtime: str) -> None:
    script = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done"
    one = chosen.create("sh", "-c", script, HostConfig=host(runtime, Memory=64 << 20, PidsLimit=20))
    chosen.begin(one)
    until(lambda: b"ready" in chosen.logs(one))
    shown = chosen.inspect(one)
    assert (shown["HostConfig"]["Runtime"], shown["State"]["Running"]) == (runtime, True)
    done = chosen.command("docker", "exec", one, "sh", "-c", "echo in; cat /proc/1/comm; exit 4")
    assert (done.returncode, done.stdout) == (4, b"in\nsh\n")
    chosen.put_file(one, "put", b"content")
    assert chosen.command("docker", "exec", one, "cat", "/put").stdout == b"content"
    stats = chosen.request("GET", f"/containers/{one}/stats?stream=0&one-shot=1").json()
    assert stats["memory_stats"]["limit"] == 64 << 20 and stats["memory_stats"]["usage"] > 0
    assert len(chosen.request("GET", f"/containers/{one}/top").json()["Processes"]) >= 1
    assert chosen.request("POST", f"/containers/{one}/pause").status == 204
    assert chosen.request("POST", f"/containers/{one}/unpause").status == 204
    assert chosen.request("POST", f"/containers/{one}/stop").status == 204
    assert chosen.inspect(one)["State"]["ExitCode"] == 7
    chosen.begin(one)
    assert chosen.request("POST", f"/containers/{one}/kill").status == 204
    assert chosen.wait(one) == 137
    chosen.remove(one)
    assert nothing_left(chosen, one)


def test_it_has_networks_names_volumes_and_files(chosen: Daemon, runtime: str) -> None:
    network = chosen.request("POST", "/networks/create", {"Name": "odd"}).json()["Id"]
    other = chosen.create("sleep", "1000", name="other", HostConfig=host(runtime, NetworkMode="odd"))
    chosen.begin(other)
    script = "ping -c1 -W2 other >/dev/null && echo reached; echo kept > /v/file; grep -c odd /etc/hostname; df /shm"
    more = {"Binds": ["vol:/v"], "Tmpfs": {"/shm": "size=64k"}, "NetworkMode": "odd"}
    lines = chosen.shell(script, HostConfig=host(runtime, **more), Hostname="odd").splitlines()
    assert lines[:2] == ["reached", "1"] and lines[-1].split()[1] == "64"
    assert chosen.shell("cat /v/file", HostConfig=host("runc", Binds=["vol:/v"])) == "kept"
    chosen.remove(other)
    assert chosen.request("DELETE", f"/networks/{network}").status == 204
    assert chosen.request("DELETE", "/volumes/vol").status == 204


def test_its_other_options_are_obeyed(chosen: Daemon, runtime: str) -> None:
    """Privileges, namespaces of the host and of others, a root that is only read, an init, devices, limits."""
    mode = {"Privileged": True}
    assert "CapEff:\t0000000000000000" not in chosen.shell("cat /proc/self/status", HostConfig=host(runtime, **mode))
    host_pids = chosen.shell("readlink /proc/self/ns/pid", HostConfig=host(runtime, PidMode="host"))
    assert host_pids == os.readlink(f"/proc/{chosen.pid}/ns/pid")
    assert b"Read-only" in chosen.run("touch", "/x", HostConfig=host(runtime, ReadonlyRootfs=True)).stderr
    limits = [{"Name": "nofile", "Soft": 77, "Hard": 78}]
    assert chosen.shell("ulimit -n; ulimit -Hn", HostConfig=host(runtime, Ulimits=limits)).split() == ["77", "78"]
    zero = [{"PathOnHost": "/dev/zero", "PathInContainer": "/dev/odd", "CgroupPermissions": "r"}]
    assert chosen.shell("head -c2 /dev/odd | od -An -tx1", HostConfig=host(runtime, Devices=zero)) == "00 00"
    first = chosen.create("sleep", "1000", HostConfig=host(runtime, IpcMode="none"))
    chosen.begin(first)
    joined = chosen.shell("ps", HostConfig=host(runtime, PidMode=f"container:{first}"))
    assert "sleep 1000" in joined
    shared = chosen.shell("readlink /proc/self/ns/net", HostConfig=host(runtime, NetworkMode=f"container:{first}"))
    pid = chosen.inspect(first)["State"]["Pid"]
    assert shared == os.readlink(f"/proc/{pid}/ns/net")
    chosen.remove(first)
    forwarding = host(runtime, Sysctls={"net.ipv4.ip_forward": "1"})
    assert chosen.shell("cat /proc/sys/net/ipv4/ip_forward", HostConfig=forwarding) == "1"


def test_its_restart_policy_and_its_health_checks_are_obeyed(chosen: Daemon, runtime: str) -> None:
    policy = {"Name": "on-failure", "MaximumRetryCount": 2}
    one = chosen.create("sh", "-c", "echo run; exit 1", HostConfig=host(runtime, RestartPolicy=policy))
    chosen.begin(one)
    until(lambda: chosen.inspect(one)["State"]["Status"] == "exited" and chosen.inspect(one)["RestartCount"] == 2)
    assert chosen.logs(one).count(b"run\n") == 3
    chosen.remove(one)
    check = {"Test": ["CMD", "true"], "Interval": 10**8}
    one = chosen.create("sleep", "1000", Healthcheck=check, HostConfig=host(runtime))
    chosen.begin(one)
    until(lambda: chosen.inspect(one)["State"]["Health"]["Status"] == "healthy")
    chosen.remove(one)
    assert nothing_left(chosen, one)


def test_hooks_of_cdi_devices_are_run_and_gpus_are_such_devices(world, runtime: str) -> None:
    """As NVIDIA's files have them: a program of the host, which finds the container's files by its bundle."""
    place = world.directory()
    hook = place / "hook"
    hook.write_text(
        "#!/usr/bin/env python3\nimport json, sys\nstate = json.load(sys.stdin)\n"
        "config = json.load(open(state['bundle'] + '/config.json'))\n"
        "open(config['root']['path'] + '/hooked', 'w').write(' '.join(sys.argv[1:]))\n"
    )
    hook.chmod(0o755)
    edits = {"hooks": [{"hookName": "createContainer", "path": str(hook), "args": ["hook", "was", "here"]}]}
    document = {"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu", "devices": [{"name": "all", "containerEdits": edits}]}
    (place / "gpu.json").write_text(json.dumps(document))
    path = shutil.which(runtime.removeprefix("odd-"))
    machine = one_version(world.machine())
    with running(world.daemon([f"--cdi-spec-dir={place}", f"--add-runtime={runtime}={path}"], machine)) as daemon:
        daemon.import_busybox()
        gpus = [{"Count": -1, "Capabilities": [["gpu"]]}]
        assert daemon.shell("cat /hooked", HostConfig=host(runtime, DeviceRequests=gpus)) == "was here"


def test_a_terminal_is_one(chosen: Daemon, runtime: str) -> None:
    asked = host(runtime, ConsoleSize=[30, 90])
    output = chosen.run("sh", "-c", "test -t 0 && tty; stty size", Tty=True, HostConfig=asked)
    assert output.status == 0 and output.stdout.split()[-2:] == [b"30", b"90"]


def test_it_outlives_the_daemon(chosen: Daemon, runtime: str) -> None:
    one = chosen.create(
        "sh", "-c", "until [ -e /go ]; do sleep 0.05; done; echo late; exit 5", HostConfig=host(runtime)
    )
    chosen.begin(one)
    pid = chosen.inspect(one)["State"]["Pid"]
    chosen.kill9()
    chosen.start()
    assert chosen.inspect(one)["State"]["Pid"] == pid
    chosen.put_file(one, "go")
    assert chosen.wait(one) == 5 and chosen.logs(one).endswith(b"late\n")
    chosen.remove(one)


def test_a_command_that_is_not_there_is_told_as_docker_does(chosen: Daemon, runtime: str) -> None:
    one = chosen.create("nosuchprogram", HostConfig=host(runtime))
    answer = chosen.request("POST", f"/containers/{one}/start")
    assert answer.status == 400 and "nosuchprogram" in answer.json()["message"], answer
    assert chosen.inspect(one)["State"]["ExitCode"] == 127
    chosen.remove(one)
    assert nothing_left(chosen, one)


def test_a_daemon_that_dies_during_the_start_leaves_nothing(world, tmp_path) -> None:
    """The runtime has made process 1, and nobody lets it go on: the monitor has the runtime forget it."""
    real = shutil.which("runc") or shutil.which("crun")
    if real is None:
        pytest.skip("needs runc: apt-get install runc")
    slow = world.directory() / "slow"
    slow.write_text(f'#!/bin/sh\ncase " $* " in *" create "*) sleep 1;; esac\nexec {real} "$@"\n')
    slow.chmod(0o755)
    daemon = world.daemon([f"--add-runtime=slow={slow}"])
    with running(daemon):
        daemon.import_busybox()
        one = daemon.create("sleep", "1000", HostConfig=host("slow"))
        with daemon.connection() as connection:
            connection.send_request("POST", f"/containers/{one}/start")
            until(lambda: (daemon.exec_root / "runtimes" / one[:12] / "config.json").exists())
            daemon.kill9()
        daemon.start()
        until(lambda: not daemon.inspect(one)["State"]["Running"])
        daemon.remove(one)
        until(lambda: nothing_left(daemon, one))


def test_a_shim_is_refused_by_what_it_says(world) -> None:
    program = world.directory() / "odd"
    program.write_text("#!/bin/sh\necho kata-runtime : 3.2.0\n")
    program.chmod(0o755)
    with running(world.daemon([f"--add-runtime=odd={program}"])) as daemon:
        daemon.import_busybox()
        one = daemon.create("true", HostConfig=host("odd"))
        answer = daemon.request("POST", f"/containers/{one}/start")
        assert answer.status == 501 and "(kata-runtime : 3.2.0) is a shim of containerd" in answer.body.decode()


def test_a_runtime_that_is_not_there_is_refused(world, chosen: Daemon) -> None:
    answer = chosen.request("POST", "/containers/create", {"Image": "busybox", "HostConfig": {"Runtime": "none"}})
    assert (answer.status, answer.json()["message"]) == (400, "unknown or invalid runtime name: none")
    with running(world.daemon(["--add-runtime=gone=/no/such", "--default-runtime=gone"])) as daemon:
        daemon.import_busybox()
        one = daemon.create("true", HostConfig={"NetworkMode": "none"})
        assert daemon.inspect(one)["HostConfig"]["Runtime"] == "gone"
        answer = daemon.request("POST", f"/containers/{one}/start")
        assert answer.status == 500 and "there is no program /no/such" in answer.json()["message"]
