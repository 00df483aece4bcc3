"""What the kernel holds of one daemon, held against what its API says is alive; whatever is more is a stray.

Run by the test process, for a daemon that is alone on its machine (the fixture `apart`): links, addresses and rules
there are its own, or the test's. The kernel is asked by other people's programs, ip(8) and nft(8), never by the
engine's code.
"""

import ipaddress
import json
import os
import re
import subprocess
from collections.abc import Iterator

from tests.harness import leaks
from tests.harness.daemon import Daemon
from tests.harness.hosts import run
from tests.harness.namespaces import Namespaces

_ADDRESS = re.compile(r"(?<![\w.:])(\d+\.\d+\.\d+\.\d+)(/\d+)?")


def links(machine: Namespaces) -> list[dict]:
    """Every network device of a machine with its addresses, as ip(8) tells of it; loopback and cables are left out."""
    found = json.loads(run(machine, "ip", "-json", "-details", "address").stdout)
    return [link for link in found if link["ifname"] != "lo" and not link["ifname"].startswith("host")]


class Alive:
    """What a daemon says is there.

    networks: by their ids; devices: id of a network → the bridge or parent it lives on
    containers: those that run, as inspected; addresses: container's → their addresses
    """

    def __init__(self, daemon: Daemon) -> None:
        shown = daemon.request("GET", "/networks").json()
        self.networks = {each["Id"]: daemon.request("GET", f"/networks/{each['Id']}").json() for each in shown}
        self.devices = {key: device for key, each in self.networks.items() if (device := device_of(each))}
        running = daemon.request("GET", "/containers/json").json()
        self.containers = [daemon.inspect(each["Id"]) for each in running]
        self.subnets = [
            ipaddress.ip_network(pool["Subnet"])
            for each in self.networks.values()
            for pool in (each["IPAM"]["Config"] or ())
        ]


def device_of(network: dict) -> str:
    """The device of the host's that belongs to a network; the default network's is not docker's, who may be there."""
    if network["Driver"] == "bridge":
        default = "engine0" if network["Name"] == "bridge" else f"br-{network['Id'][:12]}"
        chosen = (network["Options"] or {}).get("com.docker.network.bridge.name", default)
        return default if chosen == "docker0" else chosen
    return (network["Options"] or {}).get("parent", "")


def ends(container: dict) -> dict[int, dict]:
    """The interfaces that a container has, by the number that the other end has on the host."""
    command = ["nsenter", f"--target={container['State']['Pid']}", "--net", "ip", "-json", "address"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {link["link_index"]: link for link in json.loads(done.stdout) if link.get("link_index")}


def strays(daemon: Daemon) -> list[str]:
    """What is there and belongs to nothing that is alive, and what is alive and lacks what belongs to it."""
    alive = Alive(daemon)
    found = [*_stray_links(daemon, alive), *_stray_rules(daemon, alive), *_stray_endpoints(alive)]
    running, log = {container["Id"] for container in alive.containers}, daemon.log
    for path in leaks.all_cgroups():
        name = os.path.basename(path.rstrip("/"))
        if name not in running and name in log:
            found.append(f"cgroup {path}")
    home = os.readlink(f"/proc/{daemon.pid}/ns/net")
    for descriptor in os.listdir(f"/proc/{daemon.pid}/fd"):
        target = leaks.link(f"/proc/{daemon.pid}/fd/{descriptor}")
        if target.startswith("net:") and target != home:
            found.append(f"the daemon holds the network {target}")
    return found


def settled(daemon: Daemon) -> list[str]:
    """The strays that are still there after a moment, in which what is taken away in the background may go."""
    return leaks.settled(lambda: strays(daemon))


def _stray_links(daemon: Daemon, alive: Alive) -> Iterator[str]:
    owned = {end: container for container in alive.containers for end in ends(container)}
    for link in links(daemon.namespaces):
        name, kind = link["ifname"], link.get("linkinfo", {}).get("info_kind")
        if kind == "veth":
            container = owned.pop(link["ifindex"], None)
            if container is None:
                yield f"link {name} of no container that runs"
            elif link.get("master") not in {alive.devices.get(key) for key in _networks_of(container)}:
                yield f"link {name} of {container['Name']} is on {link.get('master')}"
        elif name not in alive.devices.values():
            yield f"link {name} ({kind}) of no network"
        else:
            yield from _stray_addresses(link, alive)


def _networks_of(container: dict) -> list[str]:
    return [each["NetworkID"] for each in container["NetworkSettings"]["Networks"].values()]


def _stray_addresses(link: dict, alive: Alive) -> Iterator[str]:
    gateways = {
        pool["Gateway"].split("/")[0]
        for key, device in alive.devices.items()
        if device == link["ifname"]
        for pool in (alive.networks[key]["IPAM"]["Config"] or ())
        if pool.get("Gateway")
    }
    for address in link["addr_info"]:
        if address["local"] not in gateways and address["scope"] != "link":
            yield f"address {address['local']} on {link['ifname']}"


def _stray_rules(daemon: Daemon, alive: Alive) -> Iterator[str]:
    theirs = {
        end["IPAddress"] for container in alive.containers for end in container["NetworkSettings"]["Networks"].values()
    }
    gateways = {
        pool["Gateway"].split("/")[0]
        for each in alive.networks.values()
        for pool in (each["IPAM"]["Config"] or ())
        if pool.get("Gateway")
    }
    published = {
        binding["HostPort"]
        for container in alive.containers
        for bindings in container["NetworkSettings"]["Ports"].values()
        for binding in bindings or ()
    }
    for name, text in leaks.tables(daemon.namespaces).items():
        for device in sorted(set(leaks.NAMED.findall(text)) - set(alive.devices.values())):
            yield f"table {name} speaks of {device}, which is of no network"
        for address, bits in sorted(set(_ADDRESS.findall(text))):
            inside = any(ipaddress.ip_address(address) in subnet for subnet in alive.subnets)
            if inside and not bits and address not in theirs | gateways:
                yield f"table {name} speaks of {address}, which nobody has"
        for port in sorted(set(leaks.PUBLISHED.findall(text)) - published):
            yield f"table {name} speaks of port {port}, which is not published"


def _stray_endpoints(alive: Alive) -> Iterator[str]:
    running = {container["Id"]: container for container in alive.containers}
    for network in alive.networks.values():
        given: dict[str, str] = {}
        for container, end in network["Containers"].items():
            if container not in running:
                yield f"network {network['Name']} has an endpoint of {container[:12]}, which does not run"
            elif network["Id"] not in _networks_of(running[container]):
                yield f"network {network['Name']} has an endpoint of {container[:12]}, which does not know of it"
            for address in filter(None, (end["IPv4Address"], end["IPv6Address"])):
                if address in given:
                    yield f"{address} was given to {given[address][:12]} and to {container[:12]}"
                given[address] = container
    for container in alive.containers:
        has = {address["local"] for end in ends(container).values() for address in end["addr_info"]}
        for name, end in container["NetworkSettings"]["Networks"].items():
            if container["Id"] not in alive.networks[end["NetworkID"]]["Containers"]:
                yield f"{container['Name']} has no endpoint in {name}"
            for address in filter(None, (end["IPAddress"], end["GlobalIPv6Address"])):
                if address not in has:
                    yield f"{container['Name']} does not have its address {address} in {name}"
