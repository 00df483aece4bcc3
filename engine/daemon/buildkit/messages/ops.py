"""LLB, the graph of operations that a frontend makes (buildkit, solver/pb/ops.proto)."""

from typing import Annotated, TypedDict

from engine.protocols.protobuf import UNSIGNED

UNSET, HOST, NONE = range(3)
"""NetMode."""
SANDBOX, INSECURE = range(2)
"""SecurityMode."""
BIND, SECRET, SSH, CACHE, TMPFS = range(5)
"""MountType."""
DEFAULT, ON, OFF = range(3)
"""MountContentCache."""
SHARED, PRIVATE, LOCKED = range(3)
"""CacheSharingOpt."""


class Input(TypedDict, total=False):
    digest: Annotated[str, 1]
    index: Annotated[int, 2]


class ProxyEnv(TypedDict, total=False):
    http_proxy: Annotated[str, 1]
    https_proxy: Annotated[str, 2]
    ftp_proxy: Annotated[str, 3]
    no_proxy: Annotated[str, 4]
    all_proxy: Annotated[str, 5]


class HostIP(TypedDict, total=False):
    Host: Annotated[str, 1]
    IP: Annotated[str, 2]


class Ulimit(TypedDict, total=False):
    Name: Annotated[str, 1]
    Soft: Annotated[int, 2]
    Hard: Annotated[int, 3]


class Meta(TypedDict, total=False):
    args: Annotated[list[str], 1]
    env: Annotated[list[str], 2]
    cwd: Annotated[str, 3]
    user: Annotated[str, 4]
    proxy_env: Annotated[ProxyEnv | None, 5]
    extraHosts: Annotated[list[HostIP], 6]
    hostname: Annotated[str, 7]
    ulimit: Annotated[list[Ulimit], 9]
    cgroupParent: Annotated[str, 10]
    removeMountStubsRecursive: Annotated[bool, 11]
    validExitCodes: Annotated[list[int], 12]


class TmpfsOpt(TypedDict, total=False):
    size: Annotated[int, 1]


class CacheOpt(TypedDict, total=False):
    ID: Annotated[str, 1]
    sharing: Annotated[int, 2]


class SecretOpt(TypedDict, total=False):
    ID: Annotated[str, 1]
    uid: Annotated[int, 2, UNSIGNED]
    gid: Annotated[int, 3, UNSIGNED]
    mode: Annotated[int, 4, UNSIGNED]
    optional: Annotated[bool, 5]


class SSHOpt(TypedDict, total=False):
    ID: Annotated[str, 1]
    uid: Annotated[int, 2, UNSIGNED]
    gid: Annotated[int, 3, UNSIGNED]
    mode: Annotated[int, 4, UNSIGNED]
    optional: Annotated[bool, 5]


class Mount(TypedDict, total=False):
    input: Annotated[int, 1]
    selector: Annotated[str, 2]
    dest: Annotated[str, 3]
    output: Annotated[int, 4]
    readonly: Annotated[bool, 5]
    mountType: Annotated[int, 6]
    TmpfsOpt: Annotated[TmpfsOpt | None, 19]
    cacheOpt: Annotated[CacheOpt | None, 20]
    secretOpt: Annotated[SecretOpt | None, 21]
    SSHOpt: Annotated[SSHOpt | None, 22]
    resultID: Annotated[str, 23]
    contentCache: Annotated[int, 24]


class SecretEnv(TypedDict, total=False):
    ID: Annotated[str, 1]
    name: Annotated[str, 2]
    optional: Annotated[bool, 3]


class CDIDevice(TypedDict, total=False):
    name: Annotated[str, 1]
    optional: Annotated[bool, 2]


class ExecOp(TypedDict, total=False):
    meta: Annotated[Meta | None, 1]
    mounts: Annotated[list[Mount], 2]
    network: Annotated[int, 3]
    security: Annotated[int, 4]
    secretenv: Annotated[list[SecretEnv], 5]
    cdiDevices: Annotated[list[CDIDevice], 6]


class SourceOp(TypedDict, total=False):
    identifier: Annotated[str, 1]
    attrs: Annotated[dict[str, str], 2]


class NamedUserOpt(TypedDict, total=False):
    name: Annotated[str, 1]
    input: Annotated[int, 2]


class UserOpt(TypedDict, total=False):
    byName: Annotated[NamedUserOpt | None, 1]
    byID: Annotated[int, 2, UNSIGNED]


class ChownOpt(TypedDict, total=False):
    user: Annotated[UserOpt | None, 1]
    group: Annotated[UserOpt | None, 2]


class FileActionCopy(TypedDict, total=False):
    src: Annotated[str, 1]
    dest: Annotated[str, 2]
    owner: Annotated[ChownOpt | None, 3]
    mode: Annotated[int, 4]
    followSymlink: Annotated[bool, 5]
    dirCopyContents: Annotated[bool, 6]
    attemptUnpackDockerCompatibility: Annotated[bool, 7]
    createDestPath: Annotated[bool, 8]
    allowWildcard: Annotated[bool, 9]
    allowEmptyWildcard: Annotated[bool, 10]
    timestamp: Annotated[int, 11]
    include_patterns: Annotated[list[str], 12]
    exclude_patterns: Annotated[list[str], 13]
    alwaysReplaceExistingDestPaths: Annotated[bool, 14]
    modeStr: Annotated[str, 15]
    required_paths: Annotated[list[str], 16]


class FileActionMkFile(TypedDict, total=False):
    path: Annotated[str, 1]
    mode: Annotated[int, 2]
    data: Annotated[bytes, 3]
    owner: Annotated[ChownOpt | None, 4]
    timestamp: Annotated[int, 5]


class FileActionMkDir(TypedDict, total=False):
    path: Annotated[str, 1]
    mode: Annotated[int, 2]
    makeParents: Annotated[bool, 3]
    owner: Annotated[ChownOpt | None, 4]
    timestamp: Annotated[int, 5]


class FileActionRm(TypedDict, total=False):
    path: Annotated[str, 1]
    allowNotFound: Annotated[bool, 2]
    allowWildcard: Annotated[bool, 3]


class FileActionSymlink(TypedDict, total=False):
    oldpath: Annotated[str, 1]
    newpath: Annotated[str, 2]
    owner: Annotated[ChownOpt | None, 3]
    timestamp: Annotated[int, 4]


class FileAction(TypedDict, total=False):
    input: Annotated[int, 1]
    secondaryInput: Annotated[int, 2]
    output: Annotated[int, 3]
    copy: Annotated[FileActionCopy | None, 4]
    mkfile: Annotated[FileActionMkFile | None, 5]
    mkdir: Annotated[FileActionMkDir | None, 6]
    rm: Annotated[FileActionRm | None, 7]
    symlink: Annotated[FileActionSymlink | None, 8]


class FileOp(TypedDict, total=False):
    actions: Annotated[list[FileAction], 2]


class BuildInput(TypedDict, total=False):
    input: Annotated[int, 1]


class ExportCache(TypedDict, total=False):
    Value: Annotated[bool, 1]


class ProgressGroup(TypedDict, total=False):
    id: Annotated[str, 1]
    name: Annotated[str, 2]
    weak: Annotated[bool, 3]


class LinuxResources(TypedDict, total=False):
    memory: Annotated[int, 1]
    memorySwap: Annotated[int, 2]
    cpuShares: Annotated[int, 3, UNSIGNED]
    cpuPeriod: Annotated[int, 4, UNSIGNED]
    cpuQuota: Annotated[int, 5]
    cpusetCpus: Annotated[str, 6]
    cpusetMems: Annotated[str, 7]


class OpMetadata(TypedDict, total=False):
    ignore_cache: Annotated[bool, 1]
    description: Annotated[dict[str, str], 2]
    export_cache: Annotated[ExportCache | None, 4]
    caps: Annotated[dict[str, bool], 5]
    progress_group: Annotated[ProgressGroup | None, 6]
    linux_resources: Annotated[LinuxResources | None, 7]


class Position(TypedDict, total=False):
    line: Annotated[int, 1]
    character: Annotated[int, 2]


class Range(TypedDict, total=False):
    start: Annotated[Position | None, 1]
    end: Annotated[Position | None, 2]


class Location(TypedDict, total=False):
    sourceIndex: Annotated[int, 1]
    ranges: Annotated[list[Range], 2]


class Locations(TypedDict, total=False):
    locations: Annotated[list[Location], 1]


class SourceInfo(TypedDict, total=False):
    filename: Annotated[str, 1]
    data: Annotated[bytes, 2]
    definition: Annotated["Definition | None", 3]
    language: Annotated[str, 4]


class Source(TypedDict, total=False):
    locations: Annotated[dict[str, Locations], 1]
    infos: Annotated[list[SourceInfo], 2]


class Definition(TypedDict, total=False):
    ops: Annotated[list[bytes], 1]
    metadata: Annotated[dict[str, OpMetadata], 2]
    Source: Annotated[Source | None, 3]


class BuildOp(TypedDict, total=False):
    builder: Annotated[int, 1]
    inputs: Annotated[dict[str, BuildInput], 2]
    ops: Annotated[Definition | None, 3]
    attrs: Annotated[dict[str, str], 4]


class MergeInput(TypedDict, total=False):
    input: Annotated[int, 1]


class MergeOp(TypedDict, total=False):
    inputs: Annotated[list[MergeInput], 1]


class LowerDiffInput(TypedDict, total=False):
    input: Annotated[int, 1]


class UpperDiffInput(TypedDict, total=False):
    input: Annotated[int, 1]


class DiffOp(TypedDict, total=False):
    lower: Annotated[LowerDiffInput | None, 1]
    upper: Annotated[UpperDiffInput | None, 2]


class PassthroughOp(TypedDict, total=False):
    id: Annotated[str, 1]
    outputs: Annotated[list[int], 2]


class Platform(TypedDict, total=False):
    Architecture: Annotated[str, 1]
    OS: Annotated[str, 2]
    Variant: Annotated[str, 3]
    OSVersion: Annotated[str, 4]
    OSFeatures: Annotated[list[str], 5]


class WorkerConstraints(TypedDict, total=False):
    filter: Annotated[list[str], 1]


class Op(TypedDict, total=False):
    inputs: Annotated[list[Input], 1]
    exec: Annotated[ExecOp | None, 2]
    source: Annotated[SourceOp | None, 3]
    file: Annotated[FileOp | None, 4]
    build: Annotated[BuildOp | None, 5]
    merge: Annotated[MergeOp | None, 6]
    diff: Annotated[DiffOp | None, 7]
    passthrough: Annotated[PassthroughOp | None, 8]
    platform: Annotated[Platform | None, 10]
    constraints: Annotated[WorkerConstraints | None, 11]
