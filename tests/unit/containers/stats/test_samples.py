"""The shapes of `stats` against what dockerd answered, and the numbers in them."""

import json

import pytest

from engine.daemon.containers.stats import samples
from engine.daemon.containers.stats.samples import NOTHING, Host
from engine.sandbox.cgroups.counters import parse_v1, parse_v2
from tests.harness.parts import container
from tests.unit.containers import recorded
from tests.unit.sandbox.test_cgroup_figures import V1, V2

CONTAINER = container(id="7b" * 32, name="rec-run")
HOST = Host(3_155_110_000_000, 2, 1 << 30)
NET = b"""Inter-|   Receive                            |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo: 7392017    6202    0    0    0     0          0         0  7392017    6202    0    0    0     0       0      0
  eth0: 746 7 1 2 0 0 0 0 126 3 4 5 0 0 0 0
"""


def keys(value):
    """The names in it and below, in their order."""
    if isinstance(value, dict):
        return {key: keys(inner) for key, inner in value.items()}
    return type(value).__name__


def ordered(value):
    return json.dumps(keys(value))


def shown(now, before):
    text = samples.line(CONTAINER, now, before)
    assert text.endswith(b"}\n")
    return json.loads(text)


def test_two_samples_are_as_docker_shows_them():
    """Names, types and order of call 166."""
    before = samples.sample(parse_v1(V1), HOST, {}, 1_000_000_000)
    counters = parse_v1({**V1, "memory_failures": b"0\n", "io_bytes": b""})
    now = samples.sample(counters, HOST, samples.parse_networks(NET), 2_000_000_000)
    assert ordered(shown(now, before)) == ordered(recorded.answer(166))


def test_one_sample_is_as_docker_shows_it():
    """Call 167: nothing before it."""
    counters = parse_v1({**V1, "memory_failures": b"0\n", "io_bytes": b""})
    now = samples.sample(counters, HOST, samples.parse_networks(NET), 2_000_000_000)
    assert ordered(shown(now, NOTHING)) == ordered(recorded.answer(167))


def test_nothing_is_as_docker_shows_it():
    """Call 128, of a container that was never started."""
    wanted = recorded.answer(128)
    assert shown(NOTHING, NOTHING) == {**wanted, "id": CONTAINER.id, "name": "/rec-run"}
    assert ordered(shown(NOTHING, NOTHING)) == ordered(wanted)


def test_every_interface_but_the_loopback_is_counted():
    received = {"rx_bytes": 746, "rx_packets": 7, "rx_errors": 1, "rx_dropped": 2}
    sent = {"tx_bytes": 126, "tx_packets": 3, "tx_errors": 4, "tx_dropped": 5}
    assert samples.parse_networks(NET) == {"eth0": {**received, **sent}}
    assert samples.parse_networks(b"") == {}


def test_without_a_limit_of_memory_the_machines_is_told():
    memory = shown(samples.sample(parse_v2(V2), HOST, {}, 1), NOTHING)["memory_stats"]
    assert (memory["limit"], memory["failcnt"]) == (1 << 30, 2)
    assert "max_usage" not in memory  # version 2 does not count it


def test_version_2_counts_one_of_the_eight_and_has_no_processors():
    found = shown(samples.sample(parse_v2(V2), HOST, {}, 1), NOTHING)
    counted = {key for key, value in found["blkio_stats"].items() if value is not None}
    assert counted == {"io_service_bytes_recursive"}
    assert found["blkio_stats"]["io_service_bytes_recursive"][0] == {
        "major": 8,
        "minor": 0,
        "op": "read",
        "value": 4096,
    }
    assert "percpu_usage" not in found["cpu_stats"]["cpu_usage"]
    assert found["pids_stats"] == {"current": 2, "limit": 2**64 - 1}


def test_the_machine_is_read_from_its_first_lines():
    stat = b"cpu  10 1 20 300 4 5 6 7 8 9\ncpu0 5 0 10 150 2 0 3 4 0 0\ncpu1 5 1 10 150 2 5 3 3 8 9\nintr 1 2\n"
    host = samples.parse_host(stat, 77)
    assert (host.processors, host.memory) == (2, 77)
    assert host.cpu == (10 + 1 + 20 + 300 + 4 + 5 + 6) * 10_000_000


@pytest.mark.parametrize("name", ["it's", 'a"b', "é"])
def test_a_name_is_a_text_whatever_is_in_it(name):
    line = samples.line(container(id="1", name=name), NOTHING, NOTHING)
    assert json.loads(line)["name"] == f"/{name}"
