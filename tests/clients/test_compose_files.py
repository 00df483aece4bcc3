"""What else a compose file may ask for: one file with most of it, brought up by compose 1.29 and by v2.

What each service finds itself in is asked from inside. The daemon has a machine of its own.
"""

import dataclasses
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness import composing
from tests.harness.composing import Compose, until
from tests.harness.daemon import Daemon

FILE = """
services:
  whole:
    image: busybox
    command: [sleep, "600"]
    init: true
    hostname: somebody
    user: "7"
    working_dir: /tmp
    read_only: true
    environment: {A: "1"}
    env_file: settings
    labels: {purpose: test}
    cap_drop: [ALL]
    security_opt: ["no-new-privileges:true"]
    ulimits: {nofile: {soft: 900, hard: 1000}}
    sysctls: {net.ipv4.ip_unprivileged_port_start: "77"}
    tmpfs: ["/scratch:size=1m,mode=1777"]
    mem_limit: 64m
    pids_limit: 50
    shm_size: 2m
    stop_grace_period: 1s
    stop_signal: SIGINT
    logging: {driver: json-file, options: {max-size: 1m}}
    extra_hosts: ["db:10.9.8.7"]
    expose: ["7000"]
    ports: ["127.0.0.1:18001:80", "18002-18003:90-91/udp"]
    volumes:
      - {type: bind, source: ./settings, target: /settings, read_only: true}
      - {type: volume, source: data, target: /data}
    networks:
      front: {aliases: [uno], ipv4_address: 10.202.1.10}
      back: {ipv6_address: "fd00:202::10"}
  other:
    image: busybox
    command: [sleep, "600"]
    init: true
    links: ["whole:linked"]
    dns: 10.1.1.1
    dns_search: example.org
    networks: [front]
  inside:
    image: busybox
    command: [sleep, "600"]
    init: true
    network_mode: "service:whole"
  hosted: {image: busybox, command: [readlink, /proc/self/ns/net], network_mode: host}
  lonely: {image: busybox, command: [ip, -o, link], network_mode: none}
  job: {image: busybox, command: [sh, -c, "echo made > /data/it"], volumes: ["data:/data"]}
  after:
    image: busybox
    command: [cat, /data/it]
    volumes: ["data:/data:ro"]
    depends_on: {job: {condition: service_completed_successfully}}
    networks: [outer]

networks:
  front:
    driver_opts: {com.docker.network.driver.mtu: "1400"}
    ipam: {config: [{subnet: 10.202.1.0/24, gateway: 10.202.1.254}]}
  back:
    enable_ipv6: true
    ipam: {config: [{subnet: "fd00:202::/64"}]}
  outer: {external: true}

volumes:
  data: {labels: {kept: "no"}}
"""
INSIDE = {
    "id -u; pwd; hostname; echo $A $B; ulimit -n; cat /proc/sys/net/ipv4/ip_unprivileged_port_start": (
        "7\n/tmp\nsomebody\n1 2\n900\n77\n"
    ),
    "touch /file 2>&1; touch /scratch/file && grep -c ' /scratch tmpfs ' /proc/mounts": (
        "touch: /file: Read-only file system\n1\n"
    ),
    "grep -E 'CapEff|NoNewPrivs' /proc/self/status | tr -d '\\t'": "CapEff:0000000000000000\nNoNewPrivs:1\n",
    "grep -h . /settings; echo x 2>/dev/null > /settings; grep db /etc/hosts": "B=2\n10.9.8.7\tdb\n",
    "ip -o -4 addr | grep -c 10.202.1.10/24; ip -o -6 addr | grep -c fd00:202::10/64": "1\n1\n",
    "ip -o link | grep -c 'mtu 1400'": "1\n",
}
OTHER = {
    "for name in uno linked whole; do ping -c 1 -w 5 $name | head -n 1; done": "".join(
        f"PING {name} (10.202.1.10): 56 data bytes\n" for name in ("uno", "linked", "whole")
    ),
    "grep '^[a-z]' /etc/resolv.conf": "nameserver 127.0.0.11\nsearch example.org\noptions ndots:0\n",
    "ip route | head -n 1": "default via 10.202.1.254 dev eth0 \n",
}


@pytest.fixture(params=composing.CLIENTS)
def make(request: pytest.FixtureRequest, apart: Daemon, tmp_path: Path) -> Iterator[Callable[..., Compose]]:
    """A project of this file, which is taken down after the test: `make("services: ...", settings="A=1")`."""
    project = dataclasses.replace(request.param(apart), project=f"file{request.param.__name__}", directory=tmp_path)

    def write(file: str, **others: str) -> Compose:
        for name, content in {"compose.yaml": file, **others}.items():
            (tmp_path / name).write_text(content)
        return project

    yield write
    project.clear()


@pytest.fixture
def outer(apart: Daemon) -> Iterator[None]:
    """A network that is no project's, and that is left alone by all."""
    assert apart.request("POST", "/networks/create", {"Name": "outer"}).status == 201
    yield
    assert apart.request("DELETE", "/networks/outer").status == 204


def test_a_service_has_all_that_its_file_asks_for(outer, make):
    compose = make(FILE, settings="B=2\n")
    compose("up", "-d")
    assert compose.within("whole", "\n".join(INSIDE)) == "".join(INSIDE.values())
    assert compose.within("other", "\n".join(OTHER)) == "".join(OTHER.values())
    shown = compose.inspect("whole")
    limits = {key: shown["HostConfig"][key] for key in ("Memory", "PidsLimit", "ShmSize")}
    assert limits == {"Memory": 64 << 20, "PidsLimit": 50, "ShmSize": 2 << 20}
    assert shown["HostConfig"]["LogConfig"] == {"Type": "json-file", "Config": {"max-size": "1m"}}
    ports = shown["NetworkSettings"]["Ports"]
    assert ports["7000/tcp"] is None
    assert ports["80/tcp"] == [{"HostIp": "127.0.0.1", "HostPort": "18001"}]
    assert [ports[f"{port}/udp"][0]["HostPort"] for port in (90, 91)] == ["18002", "18003"]
    assert compose.within("inside", "hostname -i") == compose.within("whole", "hostname -i")
    network = os.readlink(f"/proc/{compose.daemon.pid}/ns/net")
    for service, said in {"after": "made", "lonely": ": lo: ", "hosted": network}.items():
        assert compose.daemon.wait(compose.name(service)) == 0
        assert said in compose.daemon.logs(compose.name(service)).decode()
    compose("down", "-v", "-t", "1")
    assert compose.own() == {"containers": [], "networks": [], "volumes": []}


def test_a_project_in_the_foreground_shows_its_output_and_ends_with_its_service(make):
    """The service ends only when its output was shown: compose may pass over output that it reads after it has heard
    of the end, whatever the daemon sends first.
    """
    waits = "echo hello; until [ -e /seen ]; do sleep 0.05; done; exit 3"
    compose = make(f"services: {{a: {{image: busybox, command: [sh, -c, '{waits}']}}}}")
    with compose.begun("up", "--no-color", "--abort-on-container-exit", "--exit-code-from", "a") as client:
        assert any("| hello" in line for line in client.stdout)
        compose("exec", "-T", "a", "touch", "/seen")
        client.communicate()
    assert client.returncode == 3


def test_an_interrupt_stops_a_project_in_the_foreground(make):
    compose = make("services: {a: {image: busybox, init: true, command: [sh, -c, 'echo up; sleep 60']}}")
    with compose.begun("up", "--no-color") as client:
        assert any("| up" in line for line in client.stdout)
        client.send_signal(signal.SIGINT)
        client.communicate()
    assert client.returncode in (0, 130)
    assert compose.inspect("a")["State"]["Status"] == "exited"


def test_a_command_is_run_once_beside_the_services(make):
    compose = make("services: {a: {image: busybox, ports: ['18010:80'], environment: {X: '1'}, command: 'true'}}")
    assert compose("run", "--rm", "-T", "-e", "Y=2", "a", "sh", "-c", "echo $X $Y; exit 4", status=4) == "1 2\n"
    assert compose.own()["containers"] == []


def test_a_changed_file_makes_a_container_anew_and_an_unchanged_one_does_not(make):
    file = "services: {a: {image: busybox, init: true, command: [sleep, '60'], environment: {X: '%s'}, volumes: [/v]}}"
    compose = make(file % 1)
    compose("up", "-d")
    compose.within("a", "touch /v/kept")
    first = compose.inspect("a")["Id"]
    compose("up", "-d")
    assert compose.inspect("a")["Id"] == first
    make(file % 2)("up", "-d", "-t", "1")
    assert compose.inspect("a")["Id"] != first
    assert compose.within("a", "echo $X; ls /v") == "2\nkept\n", "an anonymous volume goes along"


@pytest.mark.parametrize("make", composing.SECOND, indirect=True)
def test_states_are_shown_and_changed(make):
    compose = make("services: {a: {image: busybox, init: true, command: [sleep, '60']}}")
    compose("create")
    assert compose.inspect("a")["State"]["Status"] == "created"
    states = []
    for verb in ("start", "pause", "unpause", "kill"):
        compose(verb)
        states.append(compose.inspect("a")["State"]["Status"])
    assert states == ["running", "paused", "running", "exited"]
    compose("rm", "-f")
    assert compose.own()["containers"] == []


def test_events_of_a_project_are_heard(make):
    compose = make("services: {a: {image: busybox, command: 'true'}}")
    said = len(compose.daemon.log)
    with compose.begun("events", "--json") as client:
        until(lambda: "GET '/events'" in compose.daemon.log[said:], "the client's call for events")
        compose("up", "-d")
        heard = []
        while "die" not in heard:
            heard.append(json.loads(client.stdout.readline())["action"])
    assert [action for action in heard if action in ("create", "start", "die")] == ["create", "start", "die"]
