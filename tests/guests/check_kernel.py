"""What the kernel keeps as a module comes when it is needed, without modprobe on the engine's part."""

import os
from pathlib import Path

from tests.guests.inside import Host


def check_a_network_without_icc_loads_br_netfilter(host: Host) -> None:
    """No client has to load it; containers of that network do not reach each other."""
    assert not os.path.exists("/sys/module/br_netfilter")
    made = host.ask(
        "POST", "/networks/create", {"Name": "apart", "Options": {"com.docker.network.bridge.enable_icc": "false"}}
    )
    ends = {"NetworkingConfig": {"EndpointsConfig": {"apart": {}}}, "HostConfig": {"NetworkMode": "apart"}}
    one = host.begin("sleep", "10000", **ends)
    assert os.path.exists("/sys/module/br_netfilter")
    assert Path("/proc/sys/net/bridge/bridge-nf-call-iptables").read_text().strip() == "1"
    address = host.inspect(one)["NetworkSettings"]["Networks"]["apart"]["IPAddress"]
    other = host.begin("sleep", "10000", **ends)
    assert host.execute(other, "ping", "-c", "1", "-W", "2", address)[0] != 0
    host.remove(one, other)
    host.ask("DELETE", f"/networks/{made['Id']}")
