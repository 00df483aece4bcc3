"""What is refused as not built: every field of the definition is obeyed, refused by name, or said to mean nothing."""

import pytest

from engine.daemon.containers import config, unbuilt
from engine.daemon.containers.verbs.create import create
from engine.errors import NotBuilt
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
    "Binds", "Mounts", "Tmpfs", "VolumesFrom", "VolumeDriver", "Init", "RestartPolicy", "PublishAllPorts", "Links",
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
    unbuilt.refuse(config.host_config({}))


@pytest.mark.parametrize("key", sorted(unbuilt.HOST_CONFIG))
def test_a_field_that_is_not_built_is_refused_by_its_name(tmp_path, key):
    value = BY_TYPE.get(type(config.HOST_CONFIG[key]), ["x"])
    with pytest.raises(NotBuilt, match=rf"^HostConfig\.{key} is not built yet in this engine$"):
        create(make_engine(tmp_path), None, {"Image": "busybox", "HostConfig": {key: value}}, None)
