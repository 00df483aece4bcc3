"""engine.daemon.api.handlers.system, login and engine.daemon.info: what the daemon says of itself and of a login."""

import http.server
import os
import threading
from dataclasses import dataclass

import pytest

from engine.daemon import info
from engine.daemon.api.dispatch import Dispatcher
from engine.daemon.api.routes import ROUTES
from engine.daemon.containers.record import State
from engine.daemon.containers.roster import Roster
from engine.daemon.network.firewall.control import Firewall
from engine.daemon.plugins.activation import Plugins
from tests.harness import schema
from tests.harness.parts import Parts, container, settings

IDENTITY = "11111111-2222-3333-4444-555555555555"


class Images:
    """A store that is counted."""

    def count(self) -> int:
        """How many images there are."""
        return 7


@dataclass
class Listened:
    """An event bus that is counted."""

    listeners: int = 3


@dataclass
class Cgroups:
    """A hierarchy of which it is asked what it can do."""

    version: str = "2"
    driver: str = "systemd"
    features: frozenset[str] = frozenset({"memory", "pids", "cpu_cfs", "cpu_shares"})
    holds_processes: bool = True
    guards_devices: bool = True


def engine(**told: object) -> Parts:
    """An engine with three containers. told: settings"""
    usual = {
        "data_root": "/proc",
        "debug": True,
        "registry_mirrors": ("https://m/",),
        "insecure_registries": ("r:5000", "10.0.0.0/8"),
        "log_driver": "journald",
        "ip6tables": False,
    }
    chosen = settings(**{**usual, **told})
    states = [State(status) for status in ("running", "paused", "exited")]
    return Parts(
        id=IDENTITY,
        settings=chosen,
        firewall=Firewall(IDENTITY, chosen),
        storage="copy",
        muxer="python",
        images=Images(),
        containers=Roster(
            container(id=f"{number:064x}", name=state.status, state=state) for number, state in enumerate(states)
        ),
        events=Listened(),
        cgroups=Cgroups(),
        plugins=Plugins(()),
    )


@pytest.fixture
def client(connect):
    return connect(Dispatcher(engine(), ROUTES))


def test_ping_says_ok_and_what_is_spoken(client):
    status, headers, body = client.ask("GET", "/_ping")
    assert (status, body) == (200, b"OK")
    assert headers["content-type"] == "text/plain; charset=utf-8"
    assert headers["cache-control"] == "no-cache, no-store, must-revalidate"
    assert (headers["pragma"], headers["swarm"], headers["builder-version"]) == ("no-cache", "inactive", "2")


def test_a_ping_by_head_has_the_same_headers_and_no_body(client):
    status, headers, _ = client.ask("HEAD", "/v1.30/_ping")
    assert (status, headers["content-length"], headers["api-version"]) == (200, "0", "1.54")


def test_a_daemon_without_buildkit_says_so_to_old_clients(connect):
    _, headers, _ = connect(Dispatcher(engine(features=("buildkit=false",)), ROUTES)).ask("GET", "/_ping")
    assert headers["builder-version"] == "1"


def test_labels_and_the_like_are_shown(connect):
    told = {
        "labels": ("a=b",),
        "node_generic_resources": ("gpu=2", "gpu=one"),
        "experimental": True,
        "live_restore": False,
        "no_new_privileges": True,
        "seccomp_profile": "/x.json",
    }
    client = connect(Dispatcher(engine(**told), ROUTES))
    body = client.ask("GET", "/info")[2]
    assert (body["Labels"], body["ExperimentalBuild"], body["LiveRestoreEnabled"]) == (["a=b"], True, False)
    assert body["GenericResources"] == [
        {"DiscreteResourceSpec": {"Kind": "gpu", "Value": 2}},
        {"NamedResourceSpec": {"Kind": "gpu", "Value": "one"}},
    ]
    assert {"name=no-new-privileges", "name=seccomp,profile=/x.json"} <= set(body["SecurityOptions"])
    version = client.ask("GET", "/version")[2]
    assert version["Components"][1]["Details"]["Experimental"] == "true"


def test_version_and_info_are_as_the_definition_has_them(client):
    for path, name in (("/version", "SystemVersion"), ("/info", "SystemInfo")):
        body = client.ask("GET", path)[2]
        assert schema.problems({"$ref": f"#/definitions/{name}"}, body) == []


def test_info_has_every_key_that_a_current_dockerd_shows(client):
    recorded = set(schema.definition()["definitions"]["SystemInfo"]["properties"])
    # dockerd leaves these out too when there is nothing in them.
    optional = {"ProductLicense", "DefaultAddressPools", "DiscoveredDevices", "NRI"}
    assert recorded - optional <= client.ask("GET", "/info")[2].keys() <= recorded


def test_info_tells_the_truth(client):
    body = client.ask("GET", "/info")[2]
    counts = ("Containers", "ContainersRunning", "ContainersPaused", "ContainersStopped", "Images")
    assert [body[key] for key in counts] == [3, 1, 1, 1, 7]
    assert (body["Driver"], body["CgroupVersion"], body["Debug"]) == ("vfs", "2", True)
    assert body["DriverStatus"] == [["Backing Filesystem", "proc"], ["Muxer", "python"]]
    assert (body["MemoryLimit"], body["SwapLimit"], body["CPUSet"]) == (True, False, False)
    assert {"WARNING: No swap limit support", "WARNING: No cpuset support"} <= set(body["Warnings"])
    assert body["MemTotal"] == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    registries = body["RegistryConfig"]
    assert registries["InsecureRegistryCIDRs"] == ["::1/128", "127.0.0.0/8", "10.0.0.0/8"]
    assert registries["IndexConfigs"]["r:5000"]["Secure"] is False
    assert registries["Mirrors"] == ["https://m/"]


def test_info_tells_of_networks(client, connect):
    body = client.ask("GET", "/info")[2]
    assert body["Plugins"]["Network"] == ["bridge", "host", "ipvlan", "macvlan", "null"]
    shown = [["Table", "inet engine-11111111"], ["EnableUserlandProxy", "true"]]
    assert body["FirewallBackend"] == {"Driver": "nftables", "Info": shown}
    assert "DefaultAddressPools" not in body
    told = {"default_address_pools": ("10.0.0.0/8,24", "fd00::/8,64"), "iptables": False, "ip6tables": False}
    body = connect(Dispatcher(engine(**told), ROUTES)).ask("GET", "/info")[2]
    assert body["FirewallBackend"] is None
    assert body["DefaultAddressPools"] == [{"Base": "10.0.0.0/8", "Size": 24}, {"Base": "fd00::/8", "Size": 64}]
    assert schema.problems({"$ref": "#/definitions/SystemInfo"}, body) == []


def test_forwarding_that_the_engine_switches_on_itself_is_nothing_to_warn_of(monkeypatch):
    monkeypatch.setattr(info, "_abilities", lambda _: dict.fromkeys(key for key, _ in info._KERNEL_WARNINGS))
    text = "WARNING: IPv4 forwarding is disabled"
    assert text not in info.info(engine())["Warnings"]
    assert text in info.info(engine(ip_forward=False))["Warnings"]


def test_info_as_older_clients_knew_it(client):
    def shown(version):
        return client.ask("GET", f"/v{version}/info")[2]

    assert "BridgeNfIptables" not in shown("1.50") and "Expected" not in shown("1.49")["RuncCommit"]
    assert {"BridgeNfIptables": False, "BridgeNfIp6tables": False}.items() <= shown("1.49").items()
    assert "FirewallBackend" in shown("1.49") and "FirewallBackend" not in shown("1.48")
    assert shown("1.48")["RuncCommit"] == {"ID": "", "Expected": ""}
    assert "AllowNondistributableArtifactsCIDRs" in shown("1.46")["RegistryConfig"]
    assert "Containerd" in shown("1.46") and "Containerd" not in shown("1.45")


def test_the_file_system_of_a_path_is_that_of_the_mount_above_it():
    assert info.filesystem_of("/proc/self/fd") == "proc"
    assert info.filesystem_of("/sys/kernel") == "sysfs"


class FrontDoor(http.server.BaseHTTPRequestHandler):
    """A registry's /v2/ that wants `u:p`."""

    def do_GET(self):
        good = self.headers.get("Authorization") == "Basic dTpw"
        self.send_response(200 if good else 401)
        if not good:
            self.send_header("WWW-Authenticate", 'Basic realm="r"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def front_door():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), FrontDoor) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("address", ["{}", "http://{}", "https://{}/v1/"])
def test_good_credentials_log_in(client, front_door, address):
    body = f'{{"username":"u","password":"p","serveraddress":"{address.format(front_door)}"}}'
    assert client.ask("POST", "/auth", body.encode())[::2] == (
        200,
        {"Status": "Login Succeeded", "IdentityToken": ""},
    )


@pytest.mark.parametrize("password", ["wrong", ""])
def test_bad_credentials_are_unauthorized(client, front_door, password):
    body = f'{{"username":"u","password":"{password}","serveraddress":"{front_door}"}}'
    assert client.ask("POST", "/auth", body.encode())[0] == 401


def test_a_registry_that_is_not_there_is_told_as_docker_tells_it(client):
    """Transcript 230."""
    status, _, body = client.ask("POST", "/auth", b'{"username":"u","password":"p","serveraddress":"localhost:1"}')
    assert status == 500
    assert body == {"message": 'Get "http://localhost:1/v2/": dial tcp 127.0.0.1:1: connect: connection refused'}
