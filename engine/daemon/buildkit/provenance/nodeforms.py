"""Describes the nodes that a Dockerfile was turned into as a graph of operations (LLB), as BuildKit's frontend does.

Pure. It is for provenance, which says how a result was made; nothing is solved by it. One function for each kind of
operation, from one table. A tree of another build's graph is described by that graph.
"""

import json
import posixpath
from collections.abc import Callable, Mapping, Sequence

from engine.daemon.builder import copies, fileactions, sourcechecks
from engine.daemon.builder.copies import Copying
from engine.daemon.builder.copying import fetching
from engine.daemon.builder.copying.request import Request
from engine.daemon.builder.git.gitaddress import GitAddress
from engine.daemon.builder.git.gitsource import GitSource
from engine.daemon.builder.graph.node import Input, Node, reachable
from engine.daemon.builder.localtree import Loading, LocalTree
from engine.daemon.builder.mounting import Mount
from engine.daemon.builder.pulled import Nothing, Pulled
from engine.daemon.builder.run import Running
from engine.daemon.builder.treecopy import Copied
from engine.daemon.builder.urls import repository
from engine.daemon.builder.workdir import MakingDirectory
from engine.daemon.buildkit.layoutsource import LayoutSource
from engine.daemon.buildkit.llb import references
from engine.daemon.buildkit.llb.definition import digest_of
from engine.daemon.buildkit.llb.localsource import LocalSource
from engine.daemon.buildkit.llb.promised import Promised
from engine.daemon.buildkit.llb.websource import WebSource
from engine.daemon.buildkit.messages import ops
from engine.daemon.images import platform as platforms
from engine.daemon.images.platform import Platform
from engine.daemon.jsontext import Object
from engine.errors import EngineError
from engine.protocols import protobuf
from engine.redact import redacted

_EMPTY, _SKIPPED = -1, -1  # no input; no output
_DIRECTORY_MODE, _FILE_MODE, _PROGRAM_MODE = 0o755, 0o644, 0o755
_NETWORKS = {"default": ops.UNSET, "host": ops.HOST, "none": ops.NONE}
_SHARING = {"shared": ops.SHARED, "private": ops.PRIVATE, "locked": ops.LOCKED}
_GIVEN = ("secret", "ssh")

Place = tuple[str, int] | None
"""The digest of an operation and the number of its output; None for an empty tree."""


class Describing:
    """One graph. given: definitions of the trees that a client gave, by node and output"""

    def __init__(self, platform: Platform, given: Mapping[tuple[str, int], ops.Definition]) -> None:
        self.platform = _platform(platform)
        self._given = given
        self._written: dict[str, bytes] = {}
        self._texts: set[str] = set()  # operations that make a here-document, which have no lines of their own
        self._lines: dict[str, ops.Locations] = {}
        self._known: dict[str, Place] = {}  # of the first output of each node, by its key

    def definition(
        self, wanted: Input | None, lines: Callable[[Node], Sequence[Object]], infos: Sequence[ops.SourceInfo]
    ) -> ops.Definition:
        """The definition that is about this tree. lines: ranges of the text that a node was made from"""
        for node in reachable([wanted.node]) if wanted is not None else ():
            before = set(self._written)
            self._known[node.key] = self._node(node)
            ranges = lines(node)
            for digest in self._written.keys() - before:
                shown = ranges and digest not in self._texts
                self._lines[digest] = {"locations": [{"ranges": ranges}] if shown else []}  # type: ignore[typeddict-item]
        place = self.place(wanted) if wanted is not None else None
        written: list[bytes] = []
        if place is not None:
            last: ops.Op = {"inputs": [{"digest": place[0], "index": place[1]}]}
            written = [*self._written.values(), protobuf.encode(ops.Op, last)]
        return {"ops": written, "metadata": {}, "Source": {"locations": self._lines, "infos": list(infos)}}

    def place(self, one: Input) -> Place:
        """Where a tree that was described comes from."""
        given = self._given.get((one.node.key, one.index))
        if given is not None:
            return self.spliced(given)
        known = self._known[one.node.key]
        return None if known is None else (known[0], one.index or known[1])

    def _node(self, node: Node) -> Place:
        described = _FORMS.get(type(node.operation))
        return None if described is None else described(self, node)

    def spliced(self, other: ops.Definition) -> Place:
        """Take in another graph: where its result comes from."""
        if not other["ops"]:
            return None
        self._written.update((digest_of(data), data) for data in other["ops"][:-1])
        (result,) = protobuf.decode(ops.Op, other["ops"][-1])["inputs"]
        return result["digest"], result["index"]

    def add(self, op: ops.Op, *inputs: Place) -> Place:
        """Write an operation on these inputs."""
        given: list[ops.Input] = [{"digest": each[0], "index": each[1]} for each in inputs if each is not None]
        data = protobuf.encode(ops.Op, {**op, "inputs": given, "constraints": {}})
        digest = digest_of(data)
        self._written[digest] = data
        return digest, 0

    def source(self, identifier: str, attrs: Mapping[str, str], platform: ops.Platform | None = None) -> Place:
        """Write a source."""
        return self.add({"source": {"identifier": identifier, "attrs": dict(attrs)}, "platform": platform})

    def git(self, address: GitAddress, keep: bool) -> Place:
        """Write a source that is a repository."""
        found = sourcechecks.of_git(address, keep)
        return self.source(found.identifier, {**found.attributes, "git.fullurl": address.shown})

    def text(self, name: str, data: bytes, mode: int) -> Place:
        """Write the making of a here-document."""
        made = self.file([{"mkfile": {"path": f"/{name}", "mode": mode, "data": data, "timestamp": -1}}])
        self._texts.add(made[0] if made is not None else "")
        return made

    def file(self, actions: Sequence[ops.FileAction], *inputs: Place) -> Place:
        """Write actions on files, each on what the one before has made."""
        count = sum(each is not None for each in inputs)
        whole: list[ops.FileAction] = []
        for number, action in enumerate(actions):
            on = count + number - 1 if number else (0 if inputs and inputs[0] is not None else _EMPTY)
            last = number == len(actions) - 1
            whole.append({"secondaryInput": _EMPTY, **action, "input": on, "output": 0 if last else _SKIPPED})
        return self.add({"file": {"actions": whole}}, *inputs)


def _platform(platform: Platform) -> ops.Platform:
    return {"Architecture": platform.architecture, "OS": platform.os, "Variant": platform.variant}


def _pulled(graph: Describing, node: Node) -> Place:
    operation = node.operation
    assert isinstance(operation, Pulled)
    return graph.source(f"docker-image://{operation.title}", {}, _platform(platforms.of(operation.image.config)))


def _loading(graph: Describing, node: Node) -> Place:
    operation = node.operation
    assert isinstance(operation, (Loading, LocalTree))
    return graph.source(operation.local.identifier, operation.local.attributes)


def _local_source(graph: Describing, node: Node) -> Place:
    operation = node.operation
    assert isinstance(operation, LocalSource)
    wanted = operation.wanted
    patterns = {"local.followpaths": wanted.followed, "local.excludepatterns": wanted.excluded}
    attrs = {name: json.dumps(list(each)) for name, each in patterns.items() if each}
    attrs |= {"local.sharedkeyhint": operation.hint} if operation.hint else {}
    return graph.source(f"local://{wanted.name}", attrs)


def _git(graph: Describing, node: Node) -> Place:
    operation = node.operation
    assert isinstance(operation, GitSource)
    return graph.git(operation.address, operation.keep)


def _web(graph: Describing, node: Node) -> Place:
    operation = node.operation
    assert isinstance(operation, WebSource)
    attrs = {"http.checksum": operation.checksum, "http.filename": operation.filename}
    return graph.source(redacted(operation.url), {name: value for name, value in attrs.items() if value})


def _layout(graph: Describing, node: Node) -> Place:
    operation = node.operation
    assert isinstance(operation, LayoutSource)
    return graph.source(f"oci-layout://{operation.name}", {}, graph.platform)


def _promised(graph: Describing, node: Node) -> Place:
    operation = node.operation
    assert isinstance(operation, Promised)
    try:
        definition = references.named(operation.identifier).tree().described()
    except EngineError:  # it went with the build that it was of; this one has taken what it needs of it
        return graph.source(operation.identifier, {})
    return graph.spliced(definition) if definition is not None else graph.source(operation.identifier, {})


def _directory(graph: Describing, node: Node) -> Place:
    operation = node.operation
    assert isinstance(operation, MakingDirectory)
    action: ops.FileActionMkDir = {
        "path": operation.path,
        "mode": _DIRECTORY_MODE,
        "makeParents": True,
        "timestamp": -1,
        "owner": _owner(operation.user),
    }
    return graph.file([{"mkdir": action}], graph.place(node.inputs[0]))


# COPY and ADD


def _copy(graph: Describing, node: Node) -> Place:
    operation = node.operation
    assert isinstance(operation, Copying)
    request = operation.request
    below = graph.place(node.inputs[0])
    base = None if request.link and not request.chmod else below
    tree = graph.place(node.inputs[1]) if len(node.inputs) > 1 else None
    if operation.local is not None and operation.local.loading is None:
        tree = graph.source(operation.local.identifier, operation.local.attributes)
    inputs: list[Place] = [base]
    actions: list[ops.FileAction] = []

    def add(source: Place, action: ops.FileActionCopy) -> None:
        if source is not None and source not in inputs[1:]:
            inputs.append(source)
        place = inputs.index(source, 1) - (inputs[0] is None) if source is not None else _EMPTY
        actions.append({"copy": action, "secondaryInput": place})

    for source in request.sources_named:
        if source not in operation.urls:
            add(tree, _copied(request, copies.plain(request, source)))
            continue
        address = repository(source)
        if address is not None:
            add(graph.git(address, bool(request.keep_git_dir)), _copied(request, copies.copied(request, "/")))
            continue
        name, wanted = fetching.plain_name(source), operation.wanted(source)
        attrs = {"http.filename": name, **({"http.checksum": wanted.checksum} if wanted.checksum else {})}
        made = copies.copied(request, f"/{name}", request.unpack_fetched)
        add(graph.source(redacted(wanted.url), attrs), _copied(request, made))
    for name, data in request.inline:
        add(graph.text(name, data, _FILE_MODE), _copied(request, copies.copied(request, f"/{name}")))
    made_of = graph.file(actions, *inputs)
    if not request.link or request.chmod or below is None:
        return made_of
    return graph.add({"merge": {"inputs": [{"input": 0}, {"input": 1}]}}, below, made_of)


def _copied(request: Request, does: Copied) -> ops.FileActionCopy:
    return {
        "src": does.source,
        "dest": does.destination,
        "mode": -1 if does.mode is None else does.mode,
        "modeStr": does.mode_text,
        "followSymlink": does.follow,
        "dirCopyContents": does.contents,
        "attemptUnpackDockerCompatibility": does.unpack,
        "createDestPath": does.parents,
        "allowWildcard": does.wildcard,
        "allowEmptyWildcard": does.empty_wildcard,
        "timestamp": -1,
        "include_patterns": list(does.include),
        "exclude_patterns": list(does.exclude),
        "required_paths": list(does.required),
        "owner": _owner(request.chown),
    }


def _owner(text: str) -> ops.ChownOpt | None:
    """`user[:group]` as an owner."""
    user, group = fileactions.owners(text, 0)
    owner: ops.ChownOpt = {}
    if user is not None:
        owner["user"] = _one_owner(user)
    if group is not None:
        owner["group"] = _one_owner(group)
    return owner or None


def _one_owner(who: int | fileactions.Named) -> ops.UserOpt:
    return {"byID": who} if isinstance(who, int) else {"byName": {"name": who.name, "input": who.tree}}


# RUN


def _run(graph: Describing, node: Node) -> Place:
    operation = node.operation
    assert isinstance(operation, Running)
    command = operation.command
    root = graph.place(node.inputs[0])
    inputs: list[Place] = [root] if root is not None else []
    mounts: list[ops.Mount] = [{"dest": "/", "input": 0 if root is not None else _EMPTY, "readonly": command.readonly}]
    secrets: list[ops.SecretEnv] = []

    def input_of(place: Place) -> int:
        if place is None:
            return _EMPTY
        if place not in inputs:
            inputs.append(place)
        return inputs.index(place)

    # What a client gives stands last, and the others in the order of their places.
    for mount in sorted(
        operation.mounts, key=lambda each: (each.type in _GIVEN, "" if each.type in _GIVEN else each.target)
    ):
        if mount.type == "secret" and mount.env:
            secrets.append({"ID": mount.id, "name": mount.env, "optional": not mount.required})
        if mount.target:
            source: Place = None
            if mount.local is not None and mount.local.loading is not None:
                source = graph.place(mount.local.loading)
            elif mount.local is not None:
                source = graph.source(mount.local.identifier, mount.local.attributes)
            elif mount.source is not None:
                source = graph.place(node.inputs[mount.source])
            mounts.append(_mount(mount, input_of(source)))
    if command.program is not None:
        above, _, name = command.program.path.rpartition("/")
        program = input_of(graph.text(name, command.program.text, _PROGRAM_MODE))
        mounts.append({"dest": f"{above}/", "input": program, "output": _SKIPPED, "readonly": True})
    hosts = [each.partition(":") for each in command.hosts]
    meta: ops.Meta = {
        "args": list(command.argv),
        "env": list(command.env),
        "cwd": command.workdir,
        "user": command.user,
        "hostname": command.hostname,
        "extraHosts": [{"Host": name, "IP": address} for name, _, address in hosts],
        "validExitCodes": [] if command.codes == (0,) else list(command.codes),
        "removeMountStubsRecursive": True,
    }
    made: ops.ExecOp = {
        "meta": meta,
        "mounts": mounts,
        "network": _NETWORKS.get(command.network, ops.UNSET),
        "security": ops.INSECURE if command.security == "insecure" else ops.SANDBOX,
        "secretenv": secrets,
        "cdiDevices": [{"name": each.name, "optional": not each.required} for each in command.devices],
    }
    return graph.add({"exec": made, "platform": graph.platform}, *inputs)


def _mount(mount: Mount, place: int) -> ops.Mount:
    of_tree = mount.type in ("bind", "cache")
    made: ops.Mount = {"dest": mount.target, "input": place, "output": _SKIPPED, "readonly": of_tree and mount.readonly}
    selector = posixpath.normpath(f"/{mount.selector}").lstrip("/")
    made |= {"selector": f"/{selector}"} if selector and of_tree else {}
    match mount.type:
        case "cache":
            about: ops.CacheOpt = {"ID": f"/{mount.id or mount.target}", "sharing": _SHARING[mount.sharing]}
            return {**made, "mountType": ops.CACHE, "cacheOpt": about}
        case "tmpfs":
            return {**made, "mountType": ops.TMPFS, "TmpfsOpt": {"size": mount.size}}
        case "secret":
            mode = 0o400 if mount.mode is None else mount.mode
            given: ops.SecretOpt = {"ID": mount.id, "uid": mount.uid, "gid": mount.gid, "mode": mode}
            optional: ops.SecretOpt = {**given, "optional": not mount.required}
            return {**made, "output": 0, "mountType": ops.SECRET, "secretOpt": optional}
        case "ssh":
            mode = 0o600 if mount.mode is None else mount.mode
            agent: ops.SSHOpt = {"ID": mount.id, "uid": mount.uid, "gid": mount.gid, "mode": mode}
            wanted: ops.SSHOpt = {**agent, "optional": not mount.required}
            return {**made, "output": 0, "mountType": ops.SSH, "SSHOpt": wanted}
        case _:
            return made


_FORMS: Mapping[type, Callable[[Describing, Node], Place]] = {
    Nothing: lambda _graph, _node: None,
    Pulled: _pulled,
    Loading: _loading,
    LocalTree: _loading,
    LocalSource: _local_source,
    GitSource: _git,
    WebSource: _web,
    LayoutSource: _layout,
    Promised: _promised,
    MakingDirectory: _directory,
    Copying: _copy,
    Running: _run,
}
