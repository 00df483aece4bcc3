"""Containers of gVisor's runsc, which have a kernel of their own: what goes by its commands, and what is refused."""

from collections.abc import Iterator

import pytest

from tests.__main__ import CACHE
from tests.api.test_runtimes import nothing_left, one_version
from tests.harness.daemon import Daemon
from tests.harness.fixtures import running
from tests.harness.listening import until
from tests.harness.namespaces import Namespaces
from tests.setup.gvisor import PROGRAMS

pytestmark = pytest.mark.seldom

LOOP = "trap 'echo usr' USR1; trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done"


@pytest.fixture(scope="module")
def machine(world) -> Namespaces:
    """A machine of this module's own."""
    return one_version(world.machine())


@pytest.fixture(scope="module")
def apart(world, machine: Namespaces) -> Iterator[Daemon]:
    """A daemon that knows runsc as `odd`."""
    if not PROGRAMS.complete(CACHE):
        pytest.skip("needs runsc, which the set-up builds with Go")
    with running(world.daemon([f"--add-runtime=odd={PROGRAMS.place(CACHE, 'runsc')}"], machine)) as started:
        started.import_busybox()
        yield started


def host(**more: object) -> dict:
    """The HostConfig of such a container."""
    return {"NetworkMode": "none", "Runtime": "odd", **more}


@pytest.fixture
def ready(apart: Daemon) -> Iterator[str]:
    """A container that says `usr` for SIGUSR1, and ends with 7 for SIGTERM."""
    one = apart.create("sh", "-c", LOOP, HostConfig=host())
    apart.begin(one)
    until(lambda: b"ready" in apart.logs(one))
    yield one
    apart.remove(one)
    until(lambda: nothing_left(apart, one))


def test_a_command_runs_on_another_kernel(apart: Daemon) -> None:
    output = apart.run("sh", "-c", "dmesg | grep -c gVisor; echo err >&2; exit 3", HostConfig=host())
    assert output == (3, b"1\n", b"err\n")


def test_an_exec_goes_by_the_runtime(apart: Daemon, ready: str) -> None:
    done = apart.command(
        "docker", "exec", "-i", ready, "sh", "-c", "cat; echo e >&2; ps | wc -l; exit 4", input=b"in\n"
    )
    assert (done.returncode, done.stdout[:3], done.stderr) == (4, b"in\n", b"e\n")
    assert apart.command("docker", "exec", "-u", "nobody", ready, "id", "-un").stdout == b"nobody\n"
    assert b"unable to find user odd" in apart.command("docker", "exec", "-u", "odd", ready, "id").stderr
    assert apart.command("docker", "exec", ready, "nosuch").returncode == 127
    assert apart.command("docker", "exec", "-t", ready, "sh", "-c", "test -t 0; exit $?").returncode == 0


def test_a_signal_reaches_its_process_and_not_the_sandbox(apart: Daemon, ready: str) -> None:
    assert apart.request("POST", f"/containers/{ready}/kill?signal=USR1").status == 204
    until(lambda: b"usr" in apart.logs(ready))
    assert apart.request("POST", f"/containers/{ready}/pause").status == 204
    assert apart.request("POST", f"/containers/{ready}/unpause").status == 204
    assert apart.request("POST", f"/containers/{ready}/pause").status == 204
    assert apart.request("POST", f"/containers/{ready}/stop").status == 204
    assert apart.inspect(ready)["State"]["ExitCode"] == 7
    apart.begin(ready)
    assert apart.request("POST", f"/containers/{ready}/kill").status == 204
    assert apart.wait(ready) == 137


def test_its_files_are_read_and_its_processes_are_listed(apart: Daemon, ready: str) -> None:
    assert apart.command("docker", "exec", ready, "sh", "-c", "echo kept > /made").returncode == 0
    assert b"kept\n" in apart.command("docker", "cp", f"{ready}:/made", "-").stdout
    assert b"A /made" in apart.command("docker", "diff", ready).stdout
    shown = apart.request("GET", f"/containers/{ready}/top").json()
    assert next(row[shown["Titles"].index("PID")] for row in shown["Processes"]) == "1"
    assert apart.request("GET", f"/containers/{ready}/top?ps_args=aux").status == 501
    stats = apart.request("GET", f"/containers/{ready}/stats?stream=0&one-shot=1").json()
    assert stats["memory_stats"]["usage"] > 0 and stats["pids_stats"]["current"] > 1
    apart.command("docker", "restart", ready)
    assert apart.command("docker", "exec", ready, "cat", "/made").stdout == b"kept\n"


def test_it_has_networks_ports_and_volumes(apart: Daemon, machine: Namespaces) -> None:
    apart.request("POST", "/networks/create", {"Name": "odd"})
    script = "mkdir /w; echo page > /w/index.html; echo kept > /v/file; httpd -f -p 80 -h /w"
    more = {"NetworkMode": "odd", "Binds": ["vol:/v"], "PortBindings": {"80/tcp": [{"HostPort": "8099"}]}}
    one = apart.create("sh", "-c", script, name="web", ExposedPorts={"80/tcp": {}}, HostConfig=host(**more))
    apart.begin(one)
    for address in ("127.0.0.1", "[::1]"):
        fetch = machine.command(["curl", "-sg", "-m", "5", "--retry", "5", "--retry-all-errors", f"{address}:8099/"])
        assert apart.command(*fetch).stdout == b"page\n"
    ours = apart.run("wget", "-qO-", "http://web/", HostConfig={"NetworkMode": "odd"})
    assert ours.stdout == b"page\n"
    assert apart.shell("cat /v/file", HostConfig={"NetworkMode": "none", "Binds": ["vol:/v"]}) == "kept"
    for verb in ("disconnect", "connect"):
        answer = apart.request(
            "POST", f"/networks/{'odd' if verb == 'disconnect' else 'bridge'}/{verb}", {"Container": one}
        )
        assert answer.status == 501 and "kernel of its own" in answer.json()["message"]
    guest = apart.create("true", HostConfig={"NetworkMode": f"container:{one}"})
    assert apart.request("POST", f"/containers/{guest}/start").status == 501
    for each in (guest, one):
        apart.remove(each)
    assert apart.request("DELETE", "/networks/odd").status == 204
    assert apart.request("DELETE", "/volumes/vol").status == 204


def test_it_finds_other_containers_by_name(apart: Daemon) -> None:
    """Those that were there before it, and those that come, are renamed and go; also for the next daemon."""
    apart.request("POST", "/networks/create", {"Name": "odd"})
    pages = "mkdir /w; echo $0 > /w/index.html; httpd -f -p 80 -h /w"

    def serve(name: str) -> str:
        aliases = {"EndpointsConfig": {"odd": {"Aliases": [f"{name}-too"]}}}
        body = {"HostConfig": {"NetworkMode": "odd"}, "NetworkingConfig": aliases}
        made = apart.create("sh", "-c", pages, name, name=name, **body)
        apart.begin(made)
        return made

    early = serve("early")
    one = apart.create("sleep", "1000", HostConfig=host(NetworkMode="odd"))
    apart.begin(one)
    late = serve("late")

    def fetched(name: str) -> bytes:
        return apart.command("docker", "exec", one, "wget", "-qO-", f"http://{name}/").stdout

    for name, page in {"early": "early", "early-too": "early", "late.odd": "late", late[:12]: "late"}.items():
        until(lambda name=name, page=page: fetched(name) == f"{page}\n".encode())
    apart.kill9()
    apart.start()
    assert apart.request("POST", f"/containers/{late}/rename?name=later").status == 204
    assert fetched("later") == b"late\n"
    apart.remove(early)
    listed = apart.command("docker", "exec", one, "cat", "/etc/hosts").stdout
    assert b"later" in listed and b"early" not in listed and b"late " not in listed
    for each in (late, one):
        apart.remove(each)
    assert apart.request("DELETE", "/networks/odd").status == 204


def test_it_outlives_the_daemon(apart: Daemon, ready: str) -> None:
    pid = apart.inspect(ready)["State"]["Pid"]
    going = apart.request("POST", f"/containers/{ready}/exec", {"Cmd": ["sh", "-c", "sleep 1; exit 9"]}).json()["Id"]
    assert apart.request("POST", f"/exec/{going}/start", {"Detach": True}).status == 200
    apart.kill9()
    apart.start()
    assert apart.request("POST", f"/containers/{ready}/pause").status == 204
    apart.kill9()
    apart.start()
    assert apart.inspect(ready)["State"]["Paused"]
    assert apart.request("POST", f"/containers/{ready}/unpause").status == 204
    assert apart.inspect(ready)["State"]["Pid"] == pid
    assert apart.command("docker", "exec", ready, "echo", "after").stdout == b"after\n"
    until(lambda: apart.request("GET", f"/exec/{going}/json").json()["ExitCode"] == 9)
    assert apart.request("POST", f"/containers/{ready}/stop").status == 204
    assert apart.inspect(ready)["State"]["ExitCode"] == 7


def test_health_checks_go_by_its_exec_and_end_in_time(apart: Daemon) -> None:
    check = {"Test": ["CMD-SHELL", "test -e /well || sleep 77"], "Interval": 10**8, "Timeout": 5 * 10**8, "Retries": 1}
    one = apart.create("sleep", "1000", Healthcheck=check, HostConfig=host())
    apart.begin(one)
    until(lambda: apart.inspect(one)["State"]["Health"]["Status"] == "unhealthy")
    apart.command("docker", "exec", one, "touch", "/well")
    until(lambda: apart.inspect(one)["State"]["Health"]["Status"] == "healthy")
    shown = apart.request("GET", f"/containers/{one}/top").json()
    assert not any("77" in cell for row in shown["Processes"] for cell in row)
    apart.remove(one)
    until(lambda: nothing_left(apart, one))


def test_a_command_that_is_not_there_is_told_as_docker_does(apart: Daemon) -> None:
    one = apart.create("nosuchprogram", HostConfig=host())
    answer = apart.request("POST", f"/containers/{one}/start")
    assert answer.status == 400 and "nosuchprogram" in answer.json()["message"], answer
    assert apart.inspect(one)["State"]["ExitCode"] == 127
    apart.remove(one)
    until(lambda: nothing_left(apart, one))


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"Privileged": True}, "Privileged"),
        (
            {"Devices": [{"PathOnHost": "/dev/zero", "PathInContainer": "/dev/odd", "CgroupPermissions": "r"}]},
            "Devices",
        ),
        ({"PidMode": "host"}, "pid"),
        ({"NetworkMode": "host"}, "net"),
        ({"IpcMode": "host"}, "ipc"),
        ({"Sysctls": {"net.ipv4.ip_forward": "1"}}, "net.ipv4.ip_forward"),
        ({"SecurityOpt": ['seccomp={"defaultAction": "SCMP_ACT_ALLOW"}']}, "seccomp"),
    ],
)
def test_what_only_the_hosts_kernel_has_is_refused(apart: Daemon, asked: dict, named: str) -> None:
    one = apart.create("true", HostConfig=host(**asked))
    answer = apart.request("POST", f"/containers/{one}/start")
    assert answer.status == 501 and "has a kernel of its own" in answer.json()["message"]
    assert named in answer.json()["message"]
    apart.remove(one)


def test_nothing_is_copied_into_it_while_it_runs(apart: Daemon, ready: str) -> None:
    done = apart.command("docker", "cp", "/etc/hostname", f"{ready}:/put")
    assert done.returncode == 1 and b"a copy into a running container is not built" in done.stderr
