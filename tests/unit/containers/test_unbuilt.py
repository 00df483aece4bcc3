"""What is refused as not built: every field of the definition is obeyed, refused by name, or said to mean nothing."""

import pytest

from engine.daemon.containers import config, unbuilt
from engine.daemon.containers.create import create
from engine.errors import NotBuilt, NotFound
from tests.unit.containers.fakes import make_engine

# Obeyed by create, start, stop, remove or the files of the container.
OBEYED = {
    "LogConfig", "NetworkMode", "AutoRemove", "ConsoleSize", "CapAdd", "CapDrop", "Dns", "DnsOptions", "DnsSearch",
    "ExtraHosts", "GroupAdd", "ReadonlyRootfs", "ShmSize", "Runtime", "CpuShares", "Memory", "NanoCpus", "CpuPeriod",
    "CpuQuota", "CpusetCpus", "CpusetMems", "MemoryReservation", "MemorySwap", "PidsLimit", "Ulimits", "MaskedPaths",
    "ReadonlyPaths", "PortBindings", "Privileged", "SecurityOpt", "Devices", "DeviceCgroupRules", "DeviceRequests",
    "Sysctls", "IpcMode", "PidMode", "UTSMode", "CgroupnsMode", "CgroupParent", "OomKillDisable", "OomScoreAdj",
    "MemorySwappiness", "BlkioWeight", "BlkioWeightDevice", "BlkioDeviceReadBps", "BlkioDeviceWriteBps",
    "BlkioDeviceReadIOps", "BlkioDeviceWriteIOps", "CpuRealtimePeriod", "CpuRealtimeRuntime",
    "Binds", "Mounts", "Tmpfs", "VolumesFrom", "VolumeDriver", "Init", "RestartPolicy",
}  # fmt: skip
# Kept and shown, and all there is to them; or refused as dockerd refuses them (validate, resources).
SHOWN = {
    "ContainerIDFile",
    "Annotations",
    "UsernsMode",
    "Isolation",
    "CpuPercent",
    "CpuCount",
    "StorageOpt",
    "IOMaximumIOps",
    "IOMaximumBandwidth",
}
BY_TYPE = {bool: True, int: 1, str: "x"}


def test_every_field_of_the_host_config_has_its_place():
    assert set(config.HOST_CONFIG) == OBEYED | SHOWN | set(unbuilt.HOST_CONFIG)
    assert not (OBEYED | SHOWN) & set(unbuilt.HOST_CONFIG)


def test_the_defaults_are_not_refused():
    unbuilt.refuse(config.host_config({}), config.networking({}, "bridge"))


@pytest.mark.parametrize("key", sorted(unbuilt.HOST_CONFIG))
def test_a_field_that_is_not_built_is_refused_by_its_name(tmp_path, key):
    value = BY_TYPE.get(type(config.HOST_CONFIG[key]), ["x"])
    with pytest.raises(NotBuilt, match=rf"^HostConfig\.{key} is not built yet in this engine$"):
        create(make_engine(tmp_path), None, {"Image": "busybox", "HostConfig": {key: value}}, None)


@pytest.mark.parametrize(
    ("networking", "text"),
    [
        ({"bridge": {}, "other": {}}, "more than one network"),
        ({"bridge": {"Aliases": ["x"]}}, r"EndpointsConfig\.bridge\.Aliases "),
        ({"default": {"IPAMConfig": {"IPv4Address": "10.0.0.1"}}}, r"EndpointsConfig\.bridge\.IPAMConfig "),
    ],
)
def test_what_an_endpoint_cannot_have_yet_is_refused(tmp_path, networking, text):
    body = {"Image": "busybox", "NetworkingConfig": {"EndpointsConfig": networking}}
    with pytest.raises(NotBuilt, match=text):
        create(make_engine(tmp_path), None, body, None)


def test_published_ports_mean_nothing_in_the_hosts_network_and_are_refused_elsewhere(tmp_path):
    engine = make_engine(tmp_path)
    ports = {"80/tcp": [{"HostPort": "80"}]}
    body = {"Image": "busybox", "HostConfig": {"PortBindings": ports, "NetworkMode": "host"}}
    _, warnings = create(engine, None, body, None)
    assert warnings == ["Published ports are discarded when using host network mode"]
    body["HostConfig"]["NetworkMode"] = "bridge"
    with pytest.raises(NotBuilt, match="PortBindings"):
        create(engine, None, body, None)


def test_a_network_that_is_not_there_is_missed_at_start(tmp_path):
    engine = make_engine(tmp_path)
    container, _ = create(engine, None, {"Image": "busybox", "HostConfig": {"NetworkMode": "nonet"}}, None)
    with pytest.raises(NotFound, match="failed to set up container networking: network nonet not found"):
        unbuilt.check_network(engine, container)


@pytest.mark.parametrize("mode", ["bridge", "default", "none", "host", ""])
def test_the_networks_of_every_host_pass(tmp_path, mode):
    engine = make_engine(tmp_path)
    container, _ = create(engine, None, {"Image": "busybox", "HostConfig": {"NetworkMode": mode}}, None)
    unbuilt.check_network(engine, container)
