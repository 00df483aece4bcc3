"""The operation `exec`: a command in a container, with its mounts, as the build graph runs it.

Pure. What an operation of a client cannot have here is refused in words, before anything is made.
"""

import posixpath
from collections.abc import Sequence

from engine.daemon.builder import stepgroups
from engine.daemon.builder.dialect import SANDBOX
from engine.daemon.builder.graph.node import Input, Node
from engine.daemon.builder.mounting import Mount
from engine.daemon.builder.pulled import Nothing
from engine.daemon.builder.run import Command, Running, Shell
from engine.daemon.buildkit.llb import wellformed
from engine.daemon.buildkit.llb.definition import Vertex
from engine.daemon.buildkit.messages import ops
from engine.daemon.buildkit.provenance.captured import Captured
from engine.daemon.dockerfile.devices import Device
from engine.daemon.jsontext import Object
from engine.errors import Invalid, NotBuilt

ROOT = "/"
"""Where the root of a command is mounted."""
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NETWORKS = {ops.UNSET: "default", ops.HOST: "host", ops.NONE: "none"}
_SHARING = {ops.SHARED: "shared", ops.PRIVATE: "private", ops.LOCKED: "locked"}
_PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy")
_MOST_MODE, _MOST_ID, _MOST_SIZE = 0o7777, (1 << 32) - 2, (1 << 63) - 1
# The limits of a command's resources, as a HostConfig calls them. They do not decide what it makes.
_RESOURCES = {
    "memory": "Memory",
    "memorySwap": "MemorySwap",
    "cpuShares": "CpuShares",
    "cpuPeriod": "CpuPeriod",
    "cpuQuota": "CpuQuota",
    "cpusetCpus": "CpusetCpus",
    "cpusetMems": "CpusetMems",
}


def convert(vertex: Vertex, given: Sequence[Input], title: str) -> tuple[Node, list[Input]]:
    """The node of the command, and the outputs of the operation. given: its inputs. Raises Invalid, NotBuilt."""
    run = vertex.op["exec"]
    assert run is not None and run["meta"] is not None  # a whole one has it
    root = next(mount for mount in run["mounts"] if mount["dest"] == ROOT)
    if root["selector"].strip("/"):
        raise NotBuilt("a part of a tree as the root of a command is not built in this engine")
    below = given[root["input"]] if root["input"] != wellformed.EMPTY else Node(Nothing()).output()
    mounts = [mount_of(run["meta"]["cwd"], mount) for mount in run["mounts"] if mount is not root]
    secrets = [variable(each) for each in run["secretenv"]]
    shell = Shell(host=_host(vertex, run["meta"]), hostname=SANDBOX)
    operation = Running(_command(run, run["meta"], root["readonly"]), title, (*mounts, *secrets), shell)
    node = Node(operation, (below, *given), title, vertex.metadata["ignore_cache"])
    return node, _outputs(run, node, given)


def capture(vertex: Vertex, captured: Captured) -> None:
    """Note what the command is given by the client."""
    run = vertex.op["exec"]
    for mount in run["mounts"] if run is not None else ():
        if mount["secretOpt"] is not None and mount["mountType"] == ops.SECRET:
            captured.secret(mount["secretOpt"]["ID"])
        elif mount["SSHOpt"] is not None and mount["mountType"] == ops.SSH:
            captured.agent(mount["SSHOpt"]["ID"] or "default")
    for secret in run["secretenv"] if run is not None else ():
        captured.secret(secret["ID"] or secret["name"])


def _outputs(run: ops.ExecOp, node: Node, given: Sequence[Input]) -> list[Input]:
    """The outputs in the order of their numbers, which is that of the mounts; those of the node begin with its root."""
    found: list[Input] = []
    place = 0
    for mount in run["mounts"]:
        if not wellformed.has_output(mount):
            continue
        if mount["dest"] == ROOT:
            found.append(node.output(0))
        elif _is_written(mount):
            place += 1
            found.append(node.output(place))
        elif mount["input"] != wellformed.EMPTY:
            found.append(given[mount["input"]])
        else:
            raise Invalid(f"the mount {mount['dest']} has an output, and nothing that it could be")
    return found


def _is_written(mount: ops.Mount) -> bool:
    """Whether what the command writes there is an output, and not the input as it was."""
    writable = not mount["readonly"] or mount["input"] == wellformed.EMPTY
    return mount["output"] != wellformed.EMPTY and mount["mountType"] == ops.BIND and writable


def _command(run: ops.ExecOp, meta: ops.Meta, readonly: bool) -> Command:
    env = [text(each) for each in meta["env"]]
    names = {each.partition("=")[0] for each in env}
    if "PATH" not in names:
        env.append(_PATH)
    proxies = _proxies(meta["proxy_env"], names)
    return Command(
        argv=tuple(map(text, meta["args"])),
        env=(*env, *proxies),
        unknown=frozenset(each.partition("=")[0] for each in proxies),
        workdir=text(meta["cwd"]) or "/",
        user=text(meta["user"]),
        network=network(run["network"]),
        hosts=hosts(meta["extraHosts"]),
        hostname=text(meta["hostname"]),
        security="insecure" if run["security"] == ops.INSECURE else "sandbox",
        readonly=readonly,
        codes=tuple(meta["validExitCodes"]) or (0,),
        devices=tuple(Device(text(each["name"]), not each["optional"]) for each in run["cdiDevices"]),
    )


def _proxies(given: ops.ProxyEnv | None, known: set[str]) -> list[str]:
    """The variables of proxies, in both ways of writing their names, as far as the command has none of its own."""
    if given is None:
        return []
    values: list[tuple[str, str]] = []
    for name in _PROXIES:
        value = text(given[name])  # type: ignore[literal-required]
        if value:
            values += [(name, value), (name.upper(), value)]
    return [f"{name}={value}" for name, value in values if name not in known]


def _host(vertex: Vertex, meta: ops.Meta) -> Object:
    """What the container has beside that, as a part of a HostConfig."""
    host: Object = {}
    if meta["ulimit"]:
        host["Ulimits"] = [
            {"Name": text(each["Name"]), "Soft": each["Soft"], "Hard": each["Hard"]} for each in meta["ulimit"]
        ]
    if meta["cgroupParent"]:
        host["CgroupParent"] = stepgroups.checked(text(meta["cgroupParent"]))
    resources = vertex.metadata["linux_resources"]
    if resources is not None:
        asked = {shown: resources[name] for name, shown in _RESOURCES.items()}  # type: ignore[literal-required]
        host |= {shown: text(value) if isinstance(value, str) else value for shown, value in asked.items() if value}
    return host


def hosts(given: Sequence[ops.HostIP]) -> tuple[str, ...]:
    """Lines for /etc/hosts, as a `Command` has them. Raises Invalid."""
    return tuple(f"{text(each['Host'])}:{text(each['IP'])}" for each in given)


def network(given: int) -> str:
    """The network of a command, as a `Command` has it. Raises Invalid."""
    if given not in _NETWORKS:
        raise Invalid(f"unknown network mode {given}")
    return _NETWORKS[given]


def network_mode(name: str) -> int:
    """The network of a `Command` as an operation has it."""
    return next((mode for mode, each in _NETWORKS.items() if each == name), ops.UNSET)


def sharing_mode(name: str) -> int:
    """How a cache of a `Mount` is shared, as an operation has it."""
    return next(mode for mode, each in _SHARING.items() if each == name)


def mount_of(cwd: str, mount: ops.Mount) -> Mount:
    """A mount of a command that begins in `cwd`; its input counts from 0, without the root. Raises Invalid."""
    target = posixpath.normpath(posixpath.join("/", cwd, text(mount["dest"])))
    source = None if mount["input"] == wellformed.EMPTY else 1 + mount["input"]
    selector = text(mount["selector"])
    match mount["mountType"]:
        case ops.BIND:
            written, readonly = _is_written(mount), mount["readonly"] and source is not None
            return Mount(
                type="bind", target=target, source=source, selector=selector, readonly=readonly, output=written
            )
        case ops.CACHE:
            cache = mount["cacheOpt"] or {"ID": "", "sharing": ops.SHARED}
            if cache["sharing"] not in _SHARING:
                raise Invalid(f"invalid sharing of the cache {cache['ID']}")
            return Mount(
                type="cache",
                target=target,
                source=source,
                selector=selector,
                readonly=mount["readonly"],
                id=text(cache["ID"]),
                sharing=_SHARING[cache["sharing"]],
            )
        case ops.TMPFS:
            size = (mount["TmpfsOpt"] or {"size": 0})["size"]
            if not 0 <= size <= _MOST_SIZE:
                raise Invalid(f"invalid size of the tmpfs {target}")
            return Mount(type="tmpfs", target=target, size=size)
        case ops.SECRET:
            return _given("secret", target, mount["secretOpt"])
        case _:
            return _given("ssh", target, mount["SSHOpt"])


def _given(kind: str, target: str, option: ops.SecretOpt | ops.SSHOpt | None) -> Mount:
    if option is None:
        raise Invalid(f"invalid {kind} mount options")
    if option["mode"] > _MOST_MODE or max(option["uid"], option["gid"]) > _MOST_ID:
        raise Invalid(f"invalid mode or owner of the {kind} {target}")
    return Mount(
        type=kind,
        target=target,
        id=text(option["ID"]) or ("default" if kind == "ssh" else posixpath.basename(target)),
        uid=option["uid"],
        gid=option["gid"],
        mode=option["mode"],
        required=not option["optional"],
    )


def variable(secret: ops.SecretEnv) -> Mount:
    """A secret that is a variable. Raises Invalid."""
    name = text(secret["name"])
    if not name or "=" in name:
        raise Invalid(f"invalid name of a variable: {name}")
    return Mount(type="secret", target="", id=text(secret["ID"]) or name, env=name, required=not secret["optional"])


def text(given: str) -> str:
    """The text itself. Raises Invalid for one with a NUL."""
    if "\0" in given:
        raise Invalid("invalid exec op: a NUL in a text")
    return given
