"""/_ping, /version, /info and /auth."""

import contextlib
import os
import platform
import re

import pytest

from tests.harness.daemon import Daemon
from tests.harness.listening import until


def test_ping_is_never_cached(daemon: Daemon) -> None:
    """Its headers are those of the transcript that name no foreign part."""
    answer = daemon.request("GET", "/_ping")
    assert answer.body == b"OK"
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache, no-store, must-revalidate"
    assert answer.headers["pragma"] == "no-cache"
    assert answer.headers["swarm"] == "inactive"


def test_version_says_what_runs(daemon: Daemon) -> None:
    """Api versions, this kernel, this machine."""
    body = daemon.request("GET", "/version").json()
    assert (body["ApiVersion"], body["MinAPIVersion"]) == ("1.54", "1.24")
    assert body["Os"] == "linux"
    assert body["KernelVersion"] == platform.release()
    own, docker = (component["Version"] for component in body["Components"])
    assert [component["Name"] for component in body["Components"]] == ["engine", "Engine"]
    assert re.fullmatch(r"29\.\d+\.\d+\+engine" + re.escape(own), docker)
    assert body["Version"] == docker == daemon.request("GET", "/info").json()["ServerVersion"]
    assert daemon.request("GET", "/_ping").headers["server"] == f"Docker/{docker} (linux)"


def test_info_says_what_the_host_is(daemon: Daemon) -> None:
    """Memory, processors, cgroups and the daemon's own choices."""
    body = daemon.request("GET", "/info").json()
    assert body["NCPU"] == os.cpu_count()
    assert body["MemTotal"] == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert body["KernelVersion"] == platform.release()
    assert body["DockerRootDir"] == str(daemon.data_root)
    assert body["CgroupVersion"] in ("1", "2")
    assert body["Driver"] in ("overlayfs", "vfs")
    assert body["OSType"] == "linux"
    assert re.fullmatch(r"[0-9a-f-]{36}", body["ID"])
    assert "muxer" in str(body).lower(), "info must say whether the C or the Python muxer runs"


def test_info_counts_containers_by_state(daemon: Daemon, container) -> None:
    """Counts move with the containers."""
    before = daemon.request("GET", "/info").json()
    runs, ended = container("sleep", "60"), container("true")
    daemon.begin(runs)
    daemon.begin(ended)
    daemon.wait(ended)
    after = daemon.request("GET", "/info").json()
    assert after["Containers"] - before["Containers"] == 2
    assert after["ContainersRunning"] - before["ContainersRunning"] == 1
    assert after["ContainersStopped"] - before["ContainersStopped"] == 1


def test_the_id_stays_over_a_restart(own_daemon: Daemon) -> None:
    """It belongs to the data root."""
    before = own_daemon.request("GET", "/info").json()["ID"]
    own_daemon.restart()
    assert own_daemon.request("GET", "/info").json()["ID"] == before


def test_auth_against_a_registry_that_is_not_there(daemon: Daemon) -> None:
    """The transcript has it in call 230."""
    body = {"username": "u", "password": "p", "serveraddress": "localhost:1"}
    answer = daemon.request("POST", "/auth", body)
    assert answer.status == 500
    assert "connection refused" in answer.message


def test_auth_against_a_registry_that_asks_for_nothing(daemon: Daemon, registry) -> None:
    """A login that succeeds."""
    body = {"username": "u", "password": "p", "serveraddress": registry.address}
    answer = daemon.request("POST", "/auth", body)
    assert answer.status == 200
    assert answer.json()["Status"] == "Login Succeeded"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_a_method_that_a_path_does_not_have_is_404(daemon: Daemon, method: str) -> None:
    """The transcript has it in call 8."""
    answer = daemon.request(method, "/_ping")
    assert (answer.status, answer.message) == (404, "page not found")


def test_goroutines_follow_the_streams_that_clients_have_open(own_daemon: Daemon) -> None:
    """Those that no thread serves, too; programs look there for what leaks."""
    own_daemon.import_busybox()
    one = own_daemon.create("sleep", "1000")
    own_daemon.begin(one)

    def count() -> int:
        return own_daemon.request("GET", "/info").json()["NGoroutines"]

    targets = (
        ("GET", f"/containers/{one}/logs?follow=1&stdout=1"),
        ("GET", "/events"),
        ("GET", f"/containers/{one}/stats"),
        ("POST", f"/containers/{one}/wait"),
    )
    for method, target in targets:
        alone = count()
        with contextlib.ExitStack() as open_ones:
            for _ in range(5):
                open_ones.enter_context(own_daemon.connection()).send_request(method, target)
            # A thread or two of the daemon may end meanwhile, or begin.
            until(lambda least=alone + 3: count() >= least)
        until(lambda most=alone + 2: count() <= most)
