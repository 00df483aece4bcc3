"""Sequences of calls about networks, volumes, images, builds and the system. Pure: of a `Random` alone."""

from collections.abc import Iterator
from random import Random

from tests.api.archives import docker_archive
from tests.comparison.containers import SMALL
from tests.comparison.step import TAR, Step, query
from tests.harness import rootfs

NETWORKS: tuple[dict, ...] = (
    {},
    {"Driver": "bridge"},
    {"Driver": "nosuch"},
    {"Driver": "host"},
    {"Driver": "null"},
    {"Internal": True},
    {"Attachable": True},
    {"Ingress": True},
    {"Scope": "swarm"},
    {"Scope": "nosuch"},
    {"EnableIPv6": True},
    {"EnableIPv4": False},
    {"EnableIPv4": False, "EnableIPv6": True},
    {"Labels": {"a": "b"}},
    {"Options": {"com.docker.network.bridge.enable_icc": "false"}},
    {"Options": {"com.docker.network.bridge.enable_icc": "x"}},
    {"Options": {"com.docker.network.driver.mtu": "1400"}},
    {"Options": {"com.docker.network.driver.mtu": "x"}},
    {"Options": {"com.docker.network.bridge.name": "a/b"}},
    {"Options": {"com.docker.network.bridge.gateway_mode_ipv4": "routed"}},
    {"Options": {"com.docker.network.bridge.gateway_mode_ipv4": "nosuch"}},
    {"ConfigOnly": True},
    {"ConfigFrom": {"Network": "nosuch"}},
    {"IPAM": {"Driver": "nosuch"}},
    {"IPAM": {"Driver": "default", "Config": [{"Subnet": "10.77.0.0/24"}]}},
    {"IPAM": {"Config": [{"Subnet": "10.78.0.0/24", "Gateway": "10.78.0.9", "IPRange": "10.78.0.128/25"}]}},
    {"IPAM": {"Config": [{"Subnet": "10.78.0.1/24"}]}},
    {"IPAM": {"Config": [{"Subnet": "10.78.0.0/24", "Gateway": "10.79.0.1"}]}},
    {"IPAM": {"Config": [{"Subnet": "10.78.0.0/24", "IPRange": "10.79.0.0/25"}]}},
    {"IPAM": {"Config": [{"Subnet": "x"}]}},
    {"IPAM": {"Config": [{"Gateway": "10.78.0.1"}]}},
    {"IPAM": {"Config": [{"Subnet": "10.78.0.0/24"}, {"Subnet": "10.78.0.0/25"}]}},
    {"IPAM": {"Config": [{"Subnet": "10.78.0.0/24", "AuxiliaryAddresses": {"a": "10.78.0.5"}}]}},
    {"IPAM": {"Config": [{"Subnet": "10.78.0.0/24", "AuxiliaryAddresses": {"a": "10.79.0.5"}}]}},
    {"EnableIPv6": True, "IPAM": {"Config": [{"Subnet": "fd00:77::/64"}]}},
    {"IPAM": {"Config": [{"Subnet": "fd00:77::/64"}]}},
    {"IPAM": {"Options": {"a": "b"}}},
)
ENDPOINTS: tuple[dict, ...] = (
    {},
    {"Aliases": ["one", "two"]},
    {"IPAMConfig": {"IPv4Address": "10.77.0.7"}},
    {"IPAMConfig": {"IPv4Address": "192.0.2.1"}},
    {"IPAMConfig": {"IPv4Address": "x"}},
    {"IPAMConfig": {"IPv6Address": "fd00:77::7"}},
    {"MacAddress": "02:00:00:00:00:07"},
    {"MacAddress": "x"},
    {"Links": ["nosuch:x"]},
    {"GwPriority": 5},
    {"DriverOpts": {"com.docker.network.endpoint.ifname": "other0"}},
    {"DriverOpts": {"com.docker.network.endpoint.ifname": "a/b"}},
    {"DriverOpts": {"com.docker.network.endpoint.sysctls": "net.ipv4.conf.IFNAME.forwarding=1"}},
)
VOLUMES: tuple[dict, ...] = (
    {},
    {"Labels": {"a": "b"}},
    {"Driver": "local"},
    {"Driver": "nosuch"},
    {"DriverOpts": {"type": "tmpfs", "device": "tmpfs", "o": "size=1m"}},
    {"DriverOpts": {"nosuch": "x"}},
    {"DriverOpts": {"type": "tmpfs"}},
    {"DriverOpts": {"device": "/nosuch", "o": "bind", "type": "none"}},
    {"ClusterVolumeSpec": {}},
)
DOCKERFILES = (
    "FROM busybox\nRUN echo built > /it\nCMD cat /it\n",
    "FROM busybox\nENV A=b\nLABEL c=$A\nCOPY made /x/\nWORKDIR /y\nUSER 1\nEXPOSE 80\nVOLUME /v\n",
    "FROM busybox\nRUN exit 3\n",
    "FROM nosuch:1\n",
    "FRM busybox\n",
    "",
    "FROM busybox\nCOPY nosuch /\n",
    "FROM busybox AS one\nRUN touch /a\nFROM busybox\nCOPY --from=one /a /b\n",
    "ARG V=busybox\nFROM $V\nARG X=1\nRUN echo $X\n",
    'FROM busybox\nADD made /tar\nENTRYPOINT ["x"]\nHEALTHCHECK CMD true\nSTOPSIGNAL 9\nSHELL ["sh", "-c"]\n',
    "FROM scratch\nCOPY made /\n",
    "FROM scratch\n",
)
IMAGE_FILTERS: tuple[dict, ...] = (
    {"reference": ["busybox"]},
    {"reference": ["nosuch*"]},
    {"dangling": ["true"]},
    {"dangling": ["x"]},
    {"label": ["a=b"]},
    {"before": ["busybox"]},
    {"since": ["nosuch"]},
    {"until": ["x"]},
    {"nosuch": ["x"]},
)


def network(chance: Random, label: str) -> Iterator[Step]:
    """A network made with any options, a container in it, and its end."""
    name, holder = f"{label}-n", f"{label}-c"
    labels = {"Labels": {"comparison": label}}
    yield Step("POST", "/networks/create", {"Name": name, **chance.choice(NETWORKS), **labels})
    yield Step("GET", f"/networks/{name}")
    mode = chance.choice(("none", "bridge", name))
    body = {"Image": "busybox", "Cmd": ["sleep", "300"], "HostConfig": {"NetworkMode": mode}, **labels}
    if mode == name:
        body["NetworkingConfig"] = {"EndpointsConfig": {name: chance.choice(ENDPOINTS)}}
    yield Step("POST", query("/containers/create", name=holder), body)
    if chance.random() < 0.6:
        yield Step("POST", f"/containers/{holder}/start")
    for _ in range(chance.randrange(3, 7)):
        yield chance.choice(
            (
                Step(
                    "POST",
                    f"/networks/{name}/connect",
                    {"Container": holder, "EndpointConfig": chance.choice(ENDPOINTS)},
                ),
                Step("POST", f"/networks/{name}/disconnect", {"Container": holder, "Force": chance.random() < 0.3}),
                Step(
                    "POST",
                    f"/networks/{chance.choice(('host', 'none', 'nosuch', 'bridge'))}/connect",
                    {"Container": holder},
                ),
                Step("GET", f"/networks/{name}?verbose=true"),
                Step("GET", f"/containers/{holder}/json"),
                Step(
                    "POST",
                    "/networks/create",
                    {"Name": chance.choice((name, "bridge", "", "a b", "container:x")), **labels},
                ),
                Step("GET", query("/networks", filters={"label": [f"comparison={label}"]})),
                Step("GET", query("/networks", filters={"name": [name], "nosuch": ["x"]})),
                Step(
                    "GET",
                    query(
                        "/networks",
                        filters=chance.choice(({"driver": ["bridge"]}, {"type": ["x"]}, {"scope": ["local"]})),
                    ),
                ),
                Step("DELETE", f"/networks/{chance.choice((name, 'bridge', 'nosuch'))}"),
                Step("POST", query("/networks/prune", filters={"label": [f"comparison={label}"]})),
            )
        )
    yield Step("DELETE", query(f"/containers/{holder}", force=1))
    yield Step("DELETE", f"/networks/{name}")


def volume(chance: Random, label: str) -> Iterator[Step]:
    """A volume, a container that uses it, and its end."""
    name, holder = f"{label}-v", f"{label}-c"
    labels = {"Labels": {"comparison": label}}
    yield Step("POST", "/volumes/create", {"Name": name, **chance.choice(VOLUMES), **labels})
    yield Step("GET", f"/volumes/{name}")
    mount = chance.choice(
        (
            {"Binds": [f"{name}:/data{chance.choice(('', ':ro', ':nocopy', ':z', ':x', ':ro,rw'))}"]},
            {"Mounts": [{"Type": "volume", "Source": name, "Target": "/etc", "ReadOnly": chance.random() < 0.3}]},
            {"Mounts": [{"Type": "volume", "Source": name, "Target": "data"}]},
            {"Mounts": [{"Type": "volume", "Source": name, "Target": "/data", "VolumeOptions": {"Subpath": "../x"}}]},
            {"Mounts": [{"Type": "volume", "Source": name, "Target": "/data", "VolumeOptions": {"Subpath": "nosuch"}}]},
            {"Binds": ["/nosuch/source:/data"], "VolumesFrom": ["nosuch"]},
            {"Mounts": [{"Type": "bind", "Source": "/nosuch/source", "Target": "/data"}]},
            {"Tmpfs": {"/data": "size=1m,nosuch"}},
        )
    )
    body = {
        "Image": "busybox",
        "Cmd": ["ls", "/data", "/etc"],
        "HostConfig": {"NetworkMode": "none", **mount},
        **labels,
    }
    yield Step("POST", query("/containers/create", name=holder), body)
    yield Step("POST", f"/containers/{holder}/start")
    yield Step("POST", f"/containers/{holder}/wait")
    yield Step("GET", f"/containers/{holder}/logs?stdout=1&stderr=1")
    yield Step("GET", f"/containers/{holder}/json")
    for _ in range(chance.randrange(2, 5)):
        yield chance.choice(
            (
                Step("POST", "/volumes/create", {"Name": name, **chance.choice(VOLUMES)}),
                Step("POST", "/volumes/create", {"Name": chance.choice(("a b", "-x", "x" * 300, "/x"))}),
                Step("DELETE", query(f"/volumes/{chance.choice((name, 'nosuch'))}", force=chance.choice((0, 1)))),
                Step("GET", query("/volumes", filters={"label": [f"comparison={label}"]})),
                Step("GET", query("/volumes", filters={"name": [name], "nosuch": ["x"]})),
                Step(
                    "GET", query("/volumes", filters={"dangling": [chance.choice(("true", "0", "x"))], "name": [name]})
                ),
                Step("POST", query("/volumes/prune", filters={"label": [f"comparison={label}"], "all": ["true"]})),
                Step("PUT", f"/volumes/{name}?version=1", {"Spec": {}}),
            )
        )
    yield Step("DELETE", query(f"/containers/{holder}", force=1, v=1))
    yield Step("DELETE", query(f"/volumes/{name}", force=1))


def image(chance: Random, label: str) -> Iterator[Step]:
    """Names, archives, imports."""
    name = f"{label}-i"
    change = chance.choice((None, "ENV A=b", "NOSUCH x", "CMD x"))
    target = query("/images/create", fromSrc="-", repo=name, tag=chance.choice((None, "x")), changes=change)
    yield Step("POST", target, chance.choice((SMALL, SMALL, b"no tar" * 200, SMALL + bytes(10240))), TAR)
    for _ in range(chance.randrange(4, 9)):
        yield chance.choice(
            (
                Step("GET", f"/images/{name}/json"),
                Step("GET", f"/images/{chance.choice(('busybox', 'nosuch', 'A', 'sha256:ab'))}/json"),
                Step("GET", f"/images/{name}/history"),
                Step("GET", query("/images/json", filters=chance.choice(IMAGE_FILTERS)), shape=True),
                Step(
                    "POST",
                    query(
                        f"/images/{chance.choice((name, 'busybox', 'nosuch'))}/tag",
                        repo=name,
                        tag=chance.choice(("y", "", "a b", "A")),
                    ),
                ),
                Step("POST", query("/images/busybox/tag", repo=chance.choice(("Upper", "a//b", name, "", "host:x/y")))),
                Step(
                    "DELETE",
                    query(f"/images/{chance.choice((name, f'{name}:y', 'nosuch'))}", force=chance.choice((0, 1))),
                ),
                Step("GET", query("/images/get", names=chance.choice((name, "nosuch"))), shape=True),
                Step("POST", "/images/load", chance.choice((SMALL, b"", b"x" * 2000, loaded(label))), TAR),
                Step("POST", query("/images/create", fromImage="127.0.0.1:1/nosuch", tag="x")),
                Step("POST", f"/images/{name}/push", headers={"X-Registry-Auth": chance.choice(("", "x", "e30="))}),
                Step("POST", query("/images/prune", filters={"label": [f"comparison={label}"], "dangling": ["false"]})),
                Step("GET", query("/images/search", term="127.0.0.1:1/x")),
                Step("GET", "/distribution/127.0.0.1:1/x/json"),
            )
        )
    for tag in ("latest", "x", "y"):
        yield Step("DELETE", query(f"/images/{name}:{tag}", force=1))


def loaded(label: str) -> bytes:
    """An archive of an image of this sequence's own."""
    config = {"Env": [f"LABEL={label}"], "Labels": {"comparison": label}}
    return docker_archive([SMALL], [f"{label}-i:y"], config, {})


def build(chance: Random, label: str) -> Iterator[Step]:
    """The classic builder."""
    name, text = f"{label}-i", chance.choice(DOCKERFILES)
    context = rootfs.archive([("Dockerfile", 0o644, text.encode()), ("made", 0o644, label.encode())])
    parameters = {
        "t": name,
        "buildargs": chance.choice((None, {"X": "2"}, {"NOSUCH": "x"})),
        "labels": {"comparison": label},
        "target": chance.choice((None, None, None, "one", "nosuch")),
        "networkmode": "none",
        "dockerfile": chance.choice((None, None, None, "nosuch", "../x")),
        "q": chance.choice((None, None, 1)),
        "nocache": 1,
        "platform": chance.choice((None, None, "linux/amd64", "x/y/z/w")),
    }
    yield Step("POST", query("/build", **parameters), context, TAR)
    yield Step("GET", f"/images/{name}/json")
    yield Step("GET", f"/images/{name}/history")
    yield Step("DELETE", query(f"/images/{name}", force=1))


def system(chance: Random, label: str) -> Iterator[Step]:
    """What tells of the daemon, and what it has not."""
    for _ in range(4):
        yield chance.choice(
            (
                Step("GET", "/_ping"),
                Step("HEAD", "/_ping"),
                Step("GET", "/info", shape=True),
                Step("GET", "/version", shape=True),
                Step("GET", query("/system/df", type=chance.choice((None, "container", "nosuch"))), shape=True),
                Step("POST", "/auth", {"username": "a", "password": "b", "serveraddress": "127.0.0.1:1"}),
                Step("GET", query("/events", since=chance.choice(("x", "1")), until=chance.choice(("2", "y")))),
                Step(
                    "GET",
                    query(
                        "/events", since=1, until=2, filters=chance.choice(({"type": ["nosuch"]}, {"nosuch": ["x"]}))
                    ),
                ),
                Step("GET", "/swarm"),
                Step("GET", chance.choice(("/services", "/nodes", "/tasks", "/secrets", "/configs"))),
                Step("GET", "/plugins"),
                Step("GET", "/nosuch"),
                Step(chance.choice(("PUT", "PATCH", "DELETE")), "/containers/json"),
                Step("POST", "/containers/create", b"{", {"Content-Type": "application/json"}),
                Step("POST", "/containers/create", b"{}", {"Content-Type": "text/plain"}),
                Step("POST", query("/build/prune", filters=chance.choice(({}, {"until": ["x"]}, {"nosuch": ["x"]})))),
            )
        )
