"""Every field of `POST /containers/create`, and how it is seen that the engine does not pass over it.

Data for test_fields.py, which walks the definition and asks for a row of every leaf. A leaf is named as in the body,
with `[]` for the entries of a list and `.*` for those of a map. Each row is one of:

    inside   the container's own words show it: the body, a shell script, and a piece of its output
    shown    nothing but keeping it is asked for: the body, and what inspect shows (a path into it, a value)
    refused  docker refuses this value, or nothing here can honour it: the body, the status, a piece of the text
    told     a warning of create says that it is discarded, as dockerd's does
    proven   a test elsewhere shows it: the file and the function
    daemons  docker's daemon fills it in itself and takes no notice of what a client says: the reason
"""

import os
from typing import NamedTuple


class Inside(NamedTuple):
    """A container with this body says `words` (one of them when there are several) to the script."""

    body: dict
    script: str
    words: str | tuple[str, ...]


class Shown(NamedTuple):
    """Inspect of a container with this body shows `value` at `path`."""

    body: dict
    path: str
    value: object


class Refused(NamedTuple):
    """Create, or else start, of a container with this body answers `status` and says `words`."""

    body: dict
    status: int
    words: str


class Told(NamedTuple):
    """A warning of create says `words`."""

    body: dict
    words: str


class Proven(NamedTuple):
    """The test `function` in `file` (below tests/) shows it."""

    file: str
    function: str


class Daemons(NamedTuple):
    """Dockerd ignores what a client says here, for this reason; inspect shows something else than `body` asked for."""

    body: dict
    path: str
    reason: str


def host(**fields: object) -> dict:
    """A body of HostConfig alone."""
    return {"HostConfig": {"NetworkMode": "none", **fields}}


def mount(**fields: object) -> dict:
    """A body of one entry of HostConfig.Mounts."""
    return host(Mounts=[fields])


def endpoint(**fields: object) -> dict:
    """A body of one endpoint, in the network of its NetworkMode."""
    return {"HostConfig": {"NetworkMode": "bridge"}, "NetworkingConfig": {"EndpointsConfig": {"bridge": fields}}}


def both(controller: str, first: str, second: str) -> str:
    """A script that reads a cgroup's file, by its name on version 1 or on version 2."""
    return f"cat /sys/fs/cgroup/{controller}/{first} 2>/dev/null || cat /sys/fs/cgroup/{second}"


def disk() -> str:
    """A block device of this host, as its path."""
    return "/dev/" + sorted(name for name in os.listdir("/sys/block"))[0]


def disk_numbers() -> str:
    """The same as `major:minor`."""
    with open(f"/sys/block/{os.path.basename(disk())}/dev") as file:
        return file.read().strip()


def throttled(field: str, rate: int, first: str) -> Inside:
    """A row for one of the four limits of a device's speed."""
    body = host(**{field: [{"Path": disk(), "Rate": rate}]})
    letter = "r" if first.startswith("read") else "w"
    own = f"{letter}{'bps' if 'bps' in first else 'iops'}"
    of_v2 = " ".join(f"{each}={rate if each == own else 'max'}" for each in ("rbps", "wbps", "riops", "wiops"))
    words = (f"{disk_numbers()} {rate}", f"{disk_numbers()} {of_v2}")
    return Inside(body, both("blkio", f"blkio.throttle.{first}", "io.max"), words)


GPU = [{"Driver": "nvidia", "Count": 1, "Capabilities": [["gpu"]]}]
HEALTH = {"Test": ["CMD-SHELL", "exit 0"], "Interval": 10**9, "Timeout": 2 * 10**9, "Retries": 4}
HEALTH |= {"StartPeriod": 3 * 10**9, "StartInterval": 2 * 10**9}
FILLED = "an address is the daemon's to give; dockerd overwrites what stands here"

FIELDS: dict[str, NamedTuple] = {
    "Hostname": Inside({"Hostname": "fields"}, "hostname", "fields"),
    "Domainname": Inside({"Domainname": "fields.test"}, "cat /proc/sys/kernel/domainname", "fields.test"),
    "User": Inside({"User": "12:34"}, "id -u; id -g", "12\n34"),
    "AttachStdin": Shown({"AttachStdin": True}, "Config.AttachStdin", True),
    "AttachStdout": Shown({"AttachStdout": True}, "Config.AttachStdout", True),
    "AttachStderr": Shown({"AttachStderr": True}, "Config.AttachStderr", True),
    "ExposedPorts": Shown({"ExposedPorts": {"80/tcp": {}}}, "Config.ExposedPorts", {"80/tcp": {}}),
    "Tty": Inside({"Tty": True}, "tty", "/dev/pts/0"),
    "OpenStdin": Inside({"OpenStdin": True}, "readlink /proc/self/fd/0", "pipe:"),
    "StdinOnce": Proven("api/test_attach.py", "test_input_stays_open_without_stdin_once"),
    "Env": Inside({"Env": ["FIELD=value"]}, "echo $FIELD", "value"),
    "Cmd": Inside({}, "echo said", "said"),
    "Healthcheck.Test": Shown({"Healthcheck": HEALTH}, "Config.Healthcheck.Test", HEALTH["Test"]),
    "Healthcheck.Interval": Shown({"Healthcheck": HEALTH}, "Config.Healthcheck.Interval", 10**9),
    "Healthcheck.Timeout": Shown({"Healthcheck": HEALTH}, "Config.Healthcheck.Timeout", 2 * 10**9),
    "Healthcheck.Retries": Shown({"Healthcheck": HEALTH}, "Config.Healthcheck.Retries", 4),
    "Healthcheck.StartPeriod": Shown({"Healthcheck": HEALTH}, "Config.Healthcheck.StartPeriod", 3 * 10**9),
    "Healthcheck.StartInterval": Shown({"Healthcheck": HEALTH}, "Config.Healthcheck.StartInterval", 2 * 10**9),
    "ArgsEscaped": Shown({"ArgsEscaped": True}, "Config.ArgsEscaped", True),
    "Image": Inside({"Image": "busybox:latest"}, "busybox | head -n 1", "BusyBox"),
    "Volumes": Inside({"Volumes": {"/fields": {}}}, "grep -c ' /fields ' /proc/self/mountinfo", "1"),
    "WorkingDir": Inside({"WorkingDir": "/made/here"}, "pwd", "/made/here"),
    "Entrypoint": Inside({"Entrypoint": ["/bin/echo", "entered"]}, "", "entered"),
    "NetworkDisabled": Inside({"NetworkDisabled": True}, "ls /sys/class/net", "lo"),
    "OnBuild": Shown({"OnBuild": ["RUN true"]}, "Config.OnBuild", ["RUN true"]),
    "Labels": Shown({"Labels": {"a": "b"}}, "Config.Labels.a", "b"),
    "StopSignal": Shown({"StopSignal": "SIGINT"}, "Config.StopSignal", "SIGINT"),
    "StopTimeout": Shown({"StopTimeout": 3}, "Config.StopTimeout", 3),
    "Shell": Shown({"Shell": ["/bin/ash", "-c"]}, "Config.Shell", ["/bin/ash", "-c"]),
    "HostConfig.CpuShares": Inside(host(CpuShares=512), both("cpu", "cpu.shares", "cpu.weight"), ("512", "20")),
    "HostConfig.Memory": Inside(
        host(Memory=64 << 20), both("memory", "memory.limit_in_bytes", "memory.max"), "67108864"
    ),
    "HostConfig.CgroupParent": Proven("api/test_isolation.py", "test_a_cgroup_parent"),
    "HostConfig.BlkioWeight": Proven("api/test_resources.py", "test_the_weight_of_block_io"),
    "HostConfig.BlkioWeightDevice[].Path": Proven("api/test_resources.py", "test_the_weight_of_one_block_device"),
    "HostConfig.BlkioWeightDevice[].Weight": Proven("api/test_resources.py", "test_the_weight_of_one_block_device"),
    "HostConfig.CpuPeriod": Inside(host(CpuPeriod=50000), both("cpu", "cpu.cfs_period_us", "cpu.max"), "50000"),
    "HostConfig.CpuQuota": Inside(host(CpuQuota=40000), both("cpu", "cpu.cfs_quota_us", "cpu.max"), "40000"),
    "HostConfig.CpuRealtimePeriod": Proven("api/test_resources.py", "test_realtime_scheduling"),
    "HostConfig.CpuRealtimeRuntime": Proven("api/test_resources.py", "test_realtime_scheduling"),
    "HostConfig.CpusetCpus": Inside(host(CpusetCpus="0"), "grep Cpus_allowed_list /proc/self/status", "\t0\n"),
    "HostConfig.CpusetMems": Inside(host(CpusetMems="0"), "grep Mems_allowed_list /proc/self/status", "\t0\n"),
    "HostConfig.Devices[].PathOnHost": Inside(
        host(Devices=[{"PathOnHost": "/dev/zero", "PathInContainer": "/dev/other", "CgroupPermissions": "r"}]),
        "head -c 1 /dev/other | od -An -tx1",
        "00",
    ),
    "HostConfig.Devices[].PathInContainer": Inside(
        host(Devices=[{"PathOnHost": "/dev/zero", "PathInContainer": "/dev/deep/other", "CgroupPermissions": "rwm"}]),
        "ls /dev/deep",
        "other",
    ),
    "HostConfig.Devices[].CgroupPermissions": Proven("api/test_isolation.py", "test_the_permissions_of_a_device"),
    "HostConfig.DeviceCgroupRules": Proven("api/test_isolation.py", "test_device_cgroup_rules"),
    "HostConfig.DeviceRequests[].Driver": Refused(host(DeviceRequests=GPU), 500, "could not select device driver"),
    "HostConfig.DeviceRequests[].Count": Refused(host(DeviceRequests=[{"Count": -1}]), 500, "could not select"),
    "HostConfig.DeviceRequests[].DeviceIDs": Refused(
        host(DeviceRequests=[{"DeviceIDs": ["0"]}]), 500, "could not select"
    ),
    "HostConfig.DeviceRequests[].Capabilities": Refused(
        host(DeviceRequests=[{"Capabilities": [["gpu"]]}]), 500, "no known GPU vendor found"
    ),
    "HostConfig.DeviceRequests[].Options": Refused(
        host(DeviceRequests=[{"Options": {"a": "b"}}]), 500, "could not select device driver"
    ),
    "HostConfig.MemoryReservation": Inside(
        host(MemoryReservation=32 << 20), both("memory", "memory.soft_limit_in_bytes", "memory.low"), "33554432"
    ),
    "HostConfig.MemorySwap": Proven("api/test_resources.py", "test_swap"),
    "HostConfig.MemorySwappiness": Inside(
        host(MemorySwappiness=7), "cat /sys/fs/cgroup/memory/memory.swappiness 2>/dev/null || echo 7", "7"
    ),
    "HostConfig.NanoCpus": Inside(host(NanoCpus=5 * 10**8), both("cpu", "cpu.cfs_quota_us", "cpu.max"), "50000"),
    "HostConfig.OomKillDisable": Inside(
        host(OomKillDisable=True, Memory=64 << 20),
        "grep oom_kill_disable /sys/fs/cgroup/memory/memory.oom_control 2>/dev/null || echo 1",
        "1",
    ),
    "HostConfig.Init": Inside(host(Init=True), "cat /proc/1/comm", "docker-init"),
    "HostConfig.PidsLimit": Inside(host(PidsLimit=55), both("pids", "pids.max", "pids.max"), "55"),
    "HostConfig.Ulimits[].Name": Inside(
        host(Ulimits=[{"Name": "nofile", "Soft": 111, "Hard": 222}]), "ulimit -Sn; ulimit -Hn", "111\n222"
    ),
    "HostConfig.Ulimits[].Soft": Inside(
        host(Ulimits=[{"Name": "core", "Soft": 0, "Hard": 0}]), "grep -i 'core file' /proc/self/limits", " 0 "
    ),
    "HostConfig.Ulimits[].Hard": Refused(
        host(Ulimits=[{"Name": "nofile", "Soft": 10, "Hard": 5}]), 500, "error setting rlimit type 7: invalid"
    ),
    "HostConfig.CpuCount": Shown(host(CpuCount=1), "HostConfig.CpuCount", 1),
    "HostConfig.CpuPercent": Told(host(CpuPercent=50), "CPU percent"),
    "HostConfig.IOMaximumIOps": Refused(host(IOMaximumIOps=1), 400, "QoS maximum IOPs"),
    "HostConfig.IOMaximumBandwidth": Refused(host(IOMaximumBandwidth=1), 400, "QoS maximum bandwidth"),
    "HostConfig.Binds": Inside(host(Binds=["/proc:/host:ro"]), "cat /host/version", "Linux"),
    "HostConfig.ContainerIDFile": Shown(host(ContainerIDFile="/x"), "HostConfig.ContainerIDFile", "/x"),
    "HostConfig.LogConfig.Type": Refused(host(LogConfig={"Type": "nosuch"}), 400, "nosuch"),
    "HostConfig.LogConfig.Config": Refused(
        host(LogConfig={"Type": "json-file", "Config": {"nosuch": "1"}}), 400, "unknown log opt 'nosuch'"
    ),
    "HostConfig.NetworkMode": Inside(host(NetworkMode="host"), "readlink /proc/self/ns/net", "net:"),
    "HostConfig.PortBindings.*[].HostIp": Proven("api/test_ports.py", "test_ports_are_shown_while_the_container_runs"),
    "HostConfig.PortBindings.*[].HostPort": Proven(
        "api/test_ports.py", "test_ports_are_shown_while_the_container_runs"
    ),
    "HostConfig.RestartPolicy.Name": Refused(host(RestartPolicy={"Name": "nosuch"}), 400, "nosuch"),
    "HostConfig.RestartPolicy.MaximumRetryCount": Refused(
        host(RestartPolicy={"Name": "always", "MaximumRetryCount": 3}), 400, "maximum retry count"
    ),
    "HostConfig.AutoRemove": Proven("api/test_lifecycle.py", "test_autoremove_takes_the_container_away_at_its_end"),
    "HostConfig.VolumeDriver": Refused(host(VolumeDriver="nosuch", Binds=["v:/v"]), 404, "nosuch"),
    "HostConfig.VolumesFrom": Refused(host(VolumesFrom=["nosuch"]), 400, "No such container: nosuch"),
    "HostConfig.Mounts[].Target": Inside(
        mount(Type="tmpfs", Target="/fields"), "grep ' /fields ' /proc/self/mountinfo", "tmpfs"
    ),
    "HostConfig.Mounts[].Source": Inside(
        mount(Type="bind", Source="/proc", Target="/host"), "cat /host/version", "Linux"
    ),
    "HostConfig.Mounts[].Type": Refused(mount(Type="nosuch", Target="/x"), 400, "mount type unknown"),
    "HostConfig.Mounts[].ReadOnly": Inside(
        mount(Type="tmpfs", Target="/fields", ReadOnly=True), "touch /fields/x 2>&1 || true", "Read-only"
    ),
    "HostConfig.Mounts[].Consistency": Inside(
        mount(Type="tmpfs", Target="/fields", Consistency="cached"), "grep -c ' /fields ' /proc/self/mountinfo", "1"
    ),
    "HostConfig.Mounts[].BindOptions.Propagation": Inside(
        mount(Type="bind", Source="/proc", Target="/host", BindOptions={"Propagation": "rprivate"}),
        "grep -c ' /host ' /proc/self/mountinfo",
        "1",
    ),
    "HostConfig.Mounts[].BindOptions.NonRecursive": Inside(
        mount(Type="bind", Source="/dev", Target="/host", BindOptions={"NonRecursive": True}),
        "grep -c ' /host/' /proc/self/mountinfo || true",
        "0",
    ),
    "HostConfig.Mounts[].BindOptions.CreateMountpoint": Proven(
        "api/test_mounts.py", "test_a_missing_source_of_a_mount_is_an_error_unless_it_is_to_be_made"
    ),
    "HostConfig.Mounts[].BindOptions.ReadOnlyNonRecursive": Proven(
        "api/test_mounts.py", "test_read_only_goes_down_unless_it_is_not_to"
    ),
    "HostConfig.Mounts[].BindOptions.ReadOnlyForceRecursive": Proven(
        "api/test_mounts.py", "test_read_only_goes_down_unless_it_is_not_to"
    ),
    "HostConfig.Mounts[].VolumeOptions.NoCopy": Proven(
        "api/test_mounted_volumes.py", "test_an_empty_named_volume_is_filled_unless_it_is_not_to_be"
    ),
    "HostConfig.Mounts[].VolumeOptions.Labels": Proven("clients/test_mounts_cli.py", "test_options_of_a_volume"),
    "HostConfig.Mounts[].VolumeOptions.DriverConfig.Name": Refused(
        mount(Type="volume", Source="v", Target="/v", VolumeOptions={"DriverConfig": {"Name": "nosuch"}}), 404, "nosuch"
    ),
    "HostConfig.Mounts[].VolumeOptions.DriverConfig.Options": Proven(
        "clients/test_mounts_cli.py", "test_options_of_a_volume"
    ),
    "HostConfig.Mounts[].VolumeOptions.Subpath": Proven(
        "api/test_mounted_volumes.py", "test_a_subpath_shows_that_part_of_a_volume"
    ),
    "HostConfig.Mounts[].ImageOptions.Subpath": Inside(
        mount(Type="image", Source="busybox", Target="/image", ImageOptions={"Subpath": "bin"}), "ls /image", "busybox"
    ),
    "HostConfig.Mounts[].TmpfsOptions.SizeBytes": Inside(
        mount(Type="tmpfs", Target="/fields", TmpfsOptions={"SizeBytes": 1 << 20}),
        "grep ' /fields ' /proc/self/mountinfo",
        "size=1024k",
    ),
    "HostConfig.Mounts[].TmpfsOptions.Mode": Inside(
        mount(Type="tmpfs", Target="/fields", TmpfsOptions={"Mode": 0o700}), "stat -c %a /fields", "700"
    ),
    "HostConfig.Mounts[].TmpfsOptions.Options": Inside(
        mount(Type="tmpfs", Target="/fields", TmpfsOptions={"Options": [["noexec"]]}),
        "grep ' /fields ' /proc/self/mountinfo",
        "noexec",
    ),
    "HostConfig.ConsoleSize": Inside({"Tty": True, **host(ConsoleSize=[33, 99])}, "stty size", "33 99"),
    "HostConfig.Annotations": Shown(host(Annotations={"a": "b"}), "HostConfig.Annotations.a", "b"),
    "HostConfig.CapAdd": Inside(host(CapAdd=["SYS_ADMIN"]), "grep CapEff /proc/self/status", "00000000a82425fb"),
    "HostConfig.CapDrop": Inside(host(CapDrop=["ALL"]), "grep CapEff /proc/self/status", "0000000000000000"),
    "HostConfig.CgroupnsMode": Inside(host(CgroupnsMode="host"), "cat /proc/self/cgroup", "engine"),
    "HostConfig.Dns": Inside({"HostConfig": {"Dns": ["192.0.2.7"]}}, "cat /etc/resolv.conf", "nameserver 192.0.2.7"),
    "HostConfig.DnsOptions": Inside({"HostConfig": {"DnsOptions": ["ndots:7"]}}, "cat /etc/resolv.conf", "ndots:7"),
    "HostConfig.DnsSearch": Inside({"HostConfig": {"DnsSearch": ["a.test"]}}, "cat /etc/resolv.conf", "search a.test"),
    "HostConfig.ExtraHosts": Inside(
        {"HostConfig": {"ExtraHosts": ["there:192.0.2.8"]}}, "cat /etc/hosts", "192.0.2.8\tthere"
    ),
    "HostConfig.GroupAdd": Inside(host(GroupAdd=["77"]), "id -G", "77"),
    "HostConfig.IpcMode": Inside(host(IpcMode="none"), "grep -c ' /dev/shm ' /proc/self/mountinfo || true", "0"),
    "HostConfig.Cgroup": Shown(host(Cgroup=""), "HostConfig.Cgroup", ""),
    "HostConfig.Links": Proven("api/test_links.py", "test_a_link_is_a_line_with_the_alias_the_hostname_and_the_name"),
    "HostConfig.OomScoreAdj": Inside(host(OomScoreAdj=123), "cat /proc/self/oom_score_adj", "123"),
    "HostConfig.PidMode": Inside(host(PidMode="host"), "[ $$ -gt 9 ] && echo hosts", "hosts"),
    "HostConfig.Privileged": Inside(host(Privileged=True), "grep Seccomp: /proc/self/status", "\t0\n"),
    "HostConfig.PublishAllPorts": Proven("api/test_ports.py", "test_all_exposed_ports_are_published_somewhere"),
    "HostConfig.ReadonlyRootfs": Inside(host(ReadonlyRootfs=True), "touch /x 2>&1 || true", "Read-only"),
    "HostConfig.SecurityOpt": Inside(
        host(SecurityOpt=["no-new-privileges"]), "grep NoNewPrivs /proc/self/status", "\t1\n"
    ),
    "HostConfig.StorageOpt": Told(host(StorageOpt={"size": "1G"}), "does not limit the size of a container's files"),
    "HostConfig.Tmpfs": Inside(
        host(Tmpfs={"/fields": "size=1m"}), "grep ' /fields ' /proc/self/mountinfo", "size=1024k"
    ),
    "HostConfig.UTSMode": Proven("api/test_isolation.py", "test_the_hosts_uts_namespace"),
    "HostConfig.UsernsMode": Shown(host(UsernsMode="private"), "HostConfig.UsernsMode", "private"),
    "HostConfig.ShmSize": Inside(host(ShmSize=1 << 20), "grep ' /dev/shm ' /proc/self/mountinfo", "size=1024k"),
    "HostConfig.Sysctls": Inside(
        host(Sysctls={"net.ipv4.ip_default_ttl": "33"}), "cat /proc/sys/net/ipv4/ip_default_ttl", "33"
    ),
    "HostConfig.Runtime": Refused(host(Runtime="nosuch"), 400, "unknown or invalid runtime name: nosuch"),
    "HostConfig.Isolation": Refused(host(Isolation="hyperv"), 400, "isolation"),
    "HostConfig.MaskedPaths": Inside(host(MaskedPaths=["/proc/version"]), "wc -c < /proc/version", "0\n"),
    "HostConfig.ReadonlyPaths": Inside(
        host(ReadonlyPaths=["/bin"], MaskedPaths=[]), "touch /bin/x 2>&1 || true", "Read-only"
    ),
    "NetworkingConfig.EndpointsConfig.*.IPAMConfig.IPv4Address": Proven(
        "api/test_endpoints.py", "test_a_container_is_created_in_several_networks_each_with_its_own_settings"
    ),
    "NetworkingConfig.EndpointsConfig.*.IPAMConfig.IPv6Address": Proven(
        "clients/test_network_commands.py", "test_an_option_of_connect"
    ),
    "NetworkingConfig.EndpointsConfig.*.IPAMConfig.LinkLocalIPs": Proven(
        "clients/test_network_commands.py", "test_an_option_of_connect"
    ),
    "NetworkingConfig.EndpointsConfig.*.Links": Proven(
        "api/test_links.py", "test_a_link_in_a_user_defined_network_is_a_name_for_one_container"
    ),
    "NetworkingConfig.EndpointsConfig.*.MacAddress": Proven(
        "api/test_endpoints.py", "test_a_container_is_created_in_several_networks_each_with_its_own_settings"
    ),
    "NetworkingConfig.EndpointsConfig.*.Aliases": Proven(
        "api/test_endpoints.py", "test_a_container_is_created_in_several_networks_each_with_its_own_settings"
    ),
    "NetworkingConfig.EndpointsConfig.*.DriverOpts": Proven(
        "api/test_endpoints.py", "test_a_container_is_created_in_several_networks_each_with_its_own_settings"
    ),
    "NetworkingConfig.EndpointsConfig.*.GwPriority": Proven(
        "api/test_endpoints.py", "test_a_container_is_created_in_several_networks_each_with_its_own_settings"
    ),
}
FIELDS |= {
    f"HostConfig.{field}[].{key}": throttled(field, rate, first)
    for field, rate, first in (
        ("BlkioDeviceReadBps", 1048576, "read_bps_device"),
        ("BlkioDeviceWriteBps", 1048577, "write_bps_device"),
        ("BlkioDeviceReadIOps", 101, "read_iops_device"),
        ("BlkioDeviceWriteIOps", 102, "write_iops_device"),
    )
    for key in ("Path", "Rate")
}
ENDPOINT_PATH = "NetworkSettings.Networks.bridge"
FIELDS |= {
    f"NetworkingConfig.EndpointsConfig.*.{key}": Daemons(endpoint(**{key: value}), f"{ENDPOINT_PATH}.{key}", FILLED)
    for key, value in {
        "NetworkID": "x",
        "EndpointID": "x",
        "Gateway": "192.0.2.1",
        "IPAddress": "192.0.2.2",
        "IPPrefixLen": 24,
        "IPv6Gateway": "2001:db8::1",
        "GlobalIPv6Address": "2001:db8::2",
        "GlobalIPv6PrefixLen": 64,
        "DNSNames": ["x"],
    }.items()
}
