"""The query of a build as values."""

import json

import pytest

from engine.daemon.api.query import Query
from engine.daemon.builder.options import Options, read
from engine.errors import Invalid


def options(query: str) -> Options:
    """Of a raw query."""
    return read(Query(query), {}.get, True)


def test_the_defaults_are_the_definitions() -> None:
    found = options("")
    assert (found.dockerfile, found.remove, found.force_remove, found.quiet) == ("Dockerfile", True, False, False)
    assert found.host == {"NetworkMode": "default"} and found.tags == ()


@pytest.mark.parametrize(
    ("query", "remove", "force"),
    [("rm=0", False, False), ("rm=", True, False), ("rm=1", True, False), ("rm=0&forcerm=1", True, True)],
)
def test_which_containers_of_steps_are_removed(query: str, remove: bool, force: bool) -> None:
    found = options(query)
    assert (found.remove, found.force_remove) == (remove, force)


def test_limits_and_hosts_are_those_of_every_step() -> None:
    limits = json.dumps([{"Name": "nofile", "Soft": 1, "Hard": 2}])
    query = (
        "memory=1&memswap=-1&cpushares=3&cpuperiod=4&cpuquota=5&shmsize=6&cpusetcpus=0&cpusetmems=1&cgroupparent=p"
        f"&networkmode=host&extrahosts=a:1.2.3.4&extrahosts=b:1,c:2&ulimits={limits}"
    ).replace(" ", "")
    assert options(query).host == {
        "Memory": 1,
        "MemorySwap": -1,
        "CpuShares": 3,
        "CpuPeriod": 4,
        "CpuQuota": 5,
        "ShmSize": 6,
        "CpusetCpus": "0",
        "CpusetMems": "1",
        "CgroupParent": "p",
        "NetworkMode": "host",
        "ExtraHosts": ["a:1.2.3.4", "b:1", "c:2"],
        "Ulimits": [{"Name": "nofile", "Soft": 1, "Hard": 2}],
    }


def test_names_are_whole_and_not_said_twice() -> None:
    found = options("t=a&t=b:1&t=&t=a:latest")
    assert [reference.familiar for reference in found.tags] == ["a:latest", "b:1"]


@pytest.mark.parametrize(
    "query",
    [
        "buildargs=[]",
        "buildargs={%22a%22:1}",
        "labels={%22a%22:null}",
        "cachefrom={}",
        "ulimits=[1]",
        "ulimits={",
        "memory=1k",
    ],
)
def test_what_is_no_value_is_refused(query: str) -> None:
    with pytest.raises(Invalid):
        options(query)


def test_null_is_nothing_and_an_argument_may_be_without_a_value() -> None:
    assert options("buildargs=null&labels=null&cachefrom=null&ulimits=null&outputs=null").args == {}
    assert options("buildargs={%22a%22:null}").args == {"a": None}


def test_only_the_classic_builder_reads_these() -> None:
    with pytest.raises(Invalid, match="invalid version 2"):
        options("version=2")
