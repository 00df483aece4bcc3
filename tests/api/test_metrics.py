"""--metrics-addr: what Prometheus reads of a daemon, by dockerd's names."""

import re
from collections.abc import Callable

import pytest

from tests.harness import others
from tests.harness.contexts import build
from tests.harness.daemon import Daemon
from tests.harness.listening import until

pytestmark = [pytest.mark.seldom, pytest.mark.usefixtures("busybox")]

PORT = 9323
SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\\]|\\\\.)*",?)+)\})? (\S+)')


def families(text: str) -> dict[str, str]:
    """The names on a page, each with its kind."""
    return dict(line.split()[2:4] for line in text.splitlines() if line.startswith("# TYPE "))


def asked(daemon: Daemon | others.Dockerd, head: str = "GET /metrics", version: str = "1.1") -> tuple[str, str]:
    """(head, body) of the answer on the metrics' own port, in the daemon's network."""
    with daemon.namespaces.connect(PORT) as connection:
        connection.settimeout(30)
        connection.sendall(f"{head} HTTP/{version}\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        data = b""
        while piece := connection.recv(65536):
            data += piece
    head, _, body = data.decode().partition("\r\n\r\n")
    return head, body


def measured(daemon: Daemon) -> dict[str, float]:
    """Each sample, by its name and labels."""
    found = {}
    for line in asked(daemon)[1].splitlines():
        if not line.startswith("#"):
            name, labels, value = SAMPLE.fullmatch(line).groups()
            found[f"{name}{{{labels}}}" if labels else name] = float(value)
    return found


@pytest.fixture
def metered(make_daemon: Callable[..., Daemon]) -> Daemon:
    """A daemon that tells what it does."""
    daemon = make_daemon("--metrics-addr", f"127.0.0.1:{PORT}")
    daemon.import_busybox()
    return daemon


def test_what_a_container_goes_through_is_measured(metered: Daemon) -> None:
    before = measured(metered)
    assert before['engine_daemon_container_actions_seconds_count{action="start"}'] == 0
    one = metered.create("sleep", "1000")
    metered.begin(one)
    now = measured(metered)
    assert now['engine_daemon_container_states_containers{state="running"}'] == 1
    assert now["engine_daemon_events_total"] >= before["engine_daemon_events_total"] + 2
    metered.remove(one)
    after = measured(metered)
    for action in ("create", "start", "delete"):
        labels = f'{{action="{action}"}}'
        assert after[f"engine_daemon_container_actions_seconds_count{labels}"] == 1
        assert after[f"engine_daemon_container_actions_seconds_sum{labels}"] > 0
        assert after[f'engine_daemon_container_actions_seconds_bucket{{action="{action}",le="+Inf"}}'] == 1


def test_a_health_check_is_counted_and_its_failure_too(metered: Daemon) -> None:
    check = {"Test": ["CMD", "false"], "Interval": 10**8}
    metered.begin(metered.create("sleep", "1000", Healthcheck=check))
    until(lambda: measured(metered)["engine_daemon_health_checks_failed_total"] >= 1)
    found = measured(metered)
    assert found["engine_daemon_health_checks_total"] >= found["engine_daemon_health_checks_failed_total"]
    begun = found["engine_daemon_health_check_start_duration_seconds_count"]
    assert 0 < begun <= found["engine_daemon_health_checks_total"] + 1
    assert 0 < found["engine_daemon_health_check_start_duration_seconds_sum"] < 60 * begun


@pytest.mark.parametrize(
    ("dockerfile", "query", "reason"),
    [
        ("FROM scratch\nFOO x\n", {}, "unknown_instruction_error"),
        ("FROM scratch\nLABEL a=b\n", {"target": "none"}, "build_target_not_reachable_error"),
        ("FROM scratch\n", {}, "dockerfile_empty_error"),
        ("FROM scratch\nCOPY none /\n", {}, None),
    ],
    ids=["unknown instruction", "missing target", "no image", "uncounted"],
)
def test_a_failed_build_is_counted_by_its_reason(
    metered: Daemon, dockerfile: str, query: dict[str, str], reason: str | None
) -> None:
    assert build(metered, dockerfile, **query).error
    counted = {
        name: number for name, number in measured(metered).items() if name.startswith("builder_builds_failed_total{")
    }
    expected = f'builder_builds_failed_total{{reason="{reason}"}}'
    assert len(counted) == 8 and [name for name, number in counted.items() if number] == [expected] * bool(reason)
    assert measured(metered)["builder_builds_triggered_total"] == 1


def test_the_engine_its_host_and_its_process_are_described(metered: Daemon) -> None:
    found, info = measured(metered), metered.request("GET", "/info").json()
    (described,) = [name for name in found if name.startswith("engine_daemon_engine_info{")]
    assert f'daemon_id="{info["ID"]}"' in described and f'graphdriver="{info["Driver"]}"' in described
    assert found["engine_daemon_engine_cpus_cpus"] == info["NCPU"]
    assert found["engine_daemon_engine_memory_bytes"] == info["MemTotal"]
    assert found["process_open_fds"] > 3 and found["process_resident_memory_bytes"] > 1 << 20


# What dockerd tells and the engine does not, by the beginning of its name, each with its reason.
LACKING = {
    "go_": "Go's garbage collector, threads and memory: the engine is no program of Go's",
    "promhttp_": "how often the page was asked for, which Go's library of Prometheus counts",
    "etcd_": "the log of swarm's managers",
    "swarm_": "swarm is not here",
    "logger_": "logs are written by the monitors, which outlive the daemon that is asked",
}


@pytest.mark.root
def test_what_a_real_dockerd_tells_is_told_by_the_same_names(metered: Daemon, world) -> None:
    """And as the same kind; what is missing has a reason, and each reason is of something that is missing."""
    metered.request("GET", "/info")  # dockerd asks itself at its start
    ours = families(asked(metered)[1])
    with others.Dockerd(world.directory() / "d", "--experimental", "--metrics-addr", f"127.0.0.1:{PORT}") as dockerd:
        theirs = families(asked(dockerd, version="1.0")[1])  # it answers 1.1 in chunks
    assert theirs["engine_daemon_container_actions_seconds"] == "histogram", theirs
    missing = theirs.keys() - ours.keys()
    assert {name for name in missing if not name.startswith(tuple(LACKING))} == set()
    assert {start for start in LACKING if not any(name.startswith(start) for name in theirs)} == set()
    assert {name: ours[name] for name in ours.keys() & theirs.keys()} == {
        name: theirs[name] for name in ours.keys() & theirs.keys()
    }


def test_only_the_page_is_there(metered: Daemon) -> None:
    assert asked(metered)[0].startswith("HTTP/1.1 200 ")
    assert asked(metered, "GET /containers/json")[0].startswith("HTTP/1.1 404 ")
    head, body = asked(metered, "HEAD /metrics")
    assert "Content-Type: text/plain; version=0.0.4" in head and not body


def test_an_address_that_is_taken_keeps_the_daemon_from_starting(world, metered: Daemon) -> None:
    other = world.daemon(["--metrics-addr", f"127.0.0.1:{PORT}"])
    other.start(wait=False)
    assert other.process.wait(60) == 1
    other.process = None
    assert f"cannot listen on 127.0.0.1:{PORT} for metrics" in other.log
