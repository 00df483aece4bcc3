"""The messages of BuildKit's service LLBBridge, which frontends speak (buildkit, frontend/gateway/pb/gateway.proto)."""

from typing import Annotated, TypedDict

from engine.daemon.buildkit.messages import caps, ops, policy, worker
from engine.daemon.buildkit.messages.fsutil import Stat
from engine.daemon.buildkit.messages.known import Status, Timestamp
from engine.protocols.protobuf import UNSIGNED

InToto, Bundle = range(2)
"""AttestationKind."""
Self, Raw = range(2)
"""InTotoSubjectKind."""
CHECKSUM_ALGO_SHA256, CHECKSUM_ALGO_SHA384, CHECKSUM_ALGO_SHA512 = range(3)
"""ChecksumAlgo."""


class RefMapDeprecated(TypedDict, total=False):
    refs: Annotated[dict[str, str], 1]


class Ref(TypedDict, total=False):
    id: Annotated[str, 1]
    ops: Annotated[ops.Definition | None, 2]


class RefMap(TypedDict, total=False):
    refs: Annotated[dict[str, Ref], 1]


class InTotoSubject(TypedDict, total=False):
    kind: Annotated[int, 1]
    digest: Annotated[list[str], 2]
    name: Annotated[str, 3]


class Attestation(TypedDict, total=False):
    kind: Annotated[int, 1]
    metadata: Annotated[dict[str, bytes], 2]
    ref: Annotated[Ref | None, 3]
    path: Annotated[str, 4]
    inTotoPredicateType: Annotated[str, 5]
    inTotoSubjects: Annotated[list[InTotoSubject], 6]


class Attestations(TypedDict, total=False):
    attestation: Annotated[list[Attestation], 1]


class Result(TypedDict, total=False):
    refDeprecated: Annotated[str, 1]
    refsDeprecated: Annotated[RefMapDeprecated | None, 2]
    ref: Annotated[Ref | None, 3]
    refs: Annotated[RefMap | None, 4]
    metadata: Annotated[dict[str, bytes], 10]
    attestations: Annotated[dict[str, Attestations], 12]


class ReturnRequest(TypedDict, total=False):
    result: Annotated[Result | None, 1]
    error: Annotated[Status | None, 2]


class ReturnResponse(TypedDict, total=False):
    pass


class InputsRequest(TypedDict, total=False):
    pass


class InputsResponse(TypedDict, total=False):
    Definitions: Annotated[dict[str, ops.Definition], 1]


class ResolveImageConfigRequest(TypedDict, total=False):
    Ref: Annotated[str, 1]
    Platform: Annotated[ops.Platform | None, 2]
    ResolveMode: Annotated[str, 3]
    LogName: Annotated[str, 4]
    ResolverType: Annotated[int, 5]
    SessionID: Annotated[str, 6]
    StoreID: Annotated[str, 7]
    SourcePolicies: Annotated[list[policy.Policy], 8]


class ResolveImageConfigResponse(TypedDict, total=False):
    Digest: Annotated[str, 1]
    Config: Annotated[bytes, 2]
    Ref: Annotated[str, 3]


class ResolveSourceGitRequest(TypedDict, total=False):
    ReturnObject: Annotated[bool, 1]


class ResolveSourceImageRequest(TypedDict, total=False):
    NoConfig: Annotated[bool, 1]
    AttestationChain: Annotated[bool, 2]
    ResolveAttestations: Annotated[list[str], 3]


class ChecksumRequest(TypedDict, total=False):
    Algo: Annotated[int, 1]
    Suffix: Annotated[bytes, 2]


class ResolveSourceHTTPRequest(TypedDict, total=False):
    ChecksumRequest: Annotated[ChecksumRequest | None, 1]


class ResolveSourceMetaRequest(TypedDict, total=False):
    Source: Annotated[ops.SourceOp | None, 1]
    Platform: Annotated[ops.Platform | None, 2]
    LogName: Annotated[str, 3]
    ResolveMode: Annotated[str, 4]
    Git: Annotated[ResolveSourceGitRequest | None, 5]
    Image: Annotated[ResolveSourceImageRequest | None, 6]
    HTTP: Annotated[ResolveSourceHTTPRequest | None, 7]
    SourcePolicies: Annotated[list[policy.Policy], 8]


class Descriptor(TypedDict, total=False):
    media_type: Annotated[str, 1]
    digest: Annotated[str, 2]
    size: Annotated[int, 3]
    annotations: Annotated[dict[str, str], 5]


class Blob(TypedDict, total=False):
    descriptor: Annotated[Descriptor | None, 1]
    data: Annotated[bytes, 2]


class AttestationChain(TypedDict, total=False):
    Root: Annotated[str, 1]
    ImageManifest: Annotated[str, 2]
    AttestationManifest: Annotated[str, 3]
    SignatureManifests: Annotated[list[str], 4]
    Blobs: Annotated[dict[str, Blob], 5]


class ResolveSourceImageResponse(TypedDict, total=False):
    Digest: Annotated[str, 1]
    Config: Annotated[bytes, 2]
    AttestationChain: Annotated[AttestationChain | None, 3]


class ResolveSourceGitResponse(TypedDict, total=False):
    Checksum: Annotated[str, 1]
    Ref: Annotated[str, 2]
    CommitChecksum: Annotated[str, 3]
    CommitObject: Annotated[bytes, 4]
    TagObject: Annotated[bytes, 5]


class ChecksumResponse(TypedDict, total=False):
    Digest: Annotated[str, 1]
    Suffix: Annotated[bytes, 2]


class ResolveSourceHTTPResponse(TypedDict, total=False):
    Checksum: Annotated[str, 1]
    Filename: Annotated[str, 2]
    LastModified: Annotated[Timestamp | None, 3]
    ChecksumResponse: Annotated[ChecksumResponse | None, 4]


class ResolveSourceMetaResponse(TypedDict, total=False):
    Source: Annotated[ops.SourceOp | None, 1]
    Image: Annotated[ResolveSourceImageResponse | None, 2]
    Git: Annotated[ResolveSourceGitResponse | None, 3]
    HTTP: Annotated[ResolveSourceHTTPResponse | None, 4]


class CacheOptionsEntry(TypedDict, total=False):
    Type: Annotated[str, 1]
    Attrs: Annotated[dict[str, str], 2]


class SolveRequest(TypedDict, total=False):
    Definition: Annotated[ops.Definition | None, 1]
    Frontend: Annotated[str, 2]
    FrontendOpt: Annotated[dict[str, str], 3]
    allowResultReturn: Annotated[bool, 5]
    allowResultArrayRef: Annotated[bool, 6]
    Final: Annotated[bool, 10]
    ExporterAttr: Annotated[bytes, 11]
    CacheImports: Annotated[list[CacheOptionsEntry], 12]
    FrontendInputs: Annotated[dict[str, ops.Definition], 13]
    Evaluate: Annotated[bool, 14]
    SourcePolicies: Annotated[list[policy.Policy], 15]


class SolveResponse(TypedDict, total=False):
    ref: Annotated[str, 1]
    result: Annotated[Result | None, 3]


class FileRange(TypedDict, total=False):
    Offset: Annotated[int, 1]
    Length: Annotated[int, 2]


class ReadFileRequest(TypedDict, total=False):
    Ref: Annotated[str, 1]
    FilePath: Annotated[str, 2]
    Range: Annotated[FileRange | None, 3]
    MountIndex: Annotated[int, 4]


class ReadFileResponse(TypedDict, total=False):
    Data: Annotated[bytes, 1]


class ReadDirRequest(TypedDict, total=False):
    Ref: Annotated[str, 1]
    DirPath: Annotated[str, 2]
    IncludePattern: Annotated[str, 3]
    MountIndex: Annotated[int, 4]


class ReadDirResponse(TypedDict, total=False):
    entries: Annotated[list[Stat], 1]


class StatFileRequest(TypedDict, total=False):
    Ref: Annotated[str, 1]
    Path: Annotated[str, 2]
    MountIndex: Annotated[int, 3]


class StatFileResponse(TypedDict, total=False):
    stat: Annotated[Stat | None, 1]


class EvaluateRequest(TypedDict, total=False):
    Ref: Annotated[str, 1]


class EvaluateResponse(TypedDict, total=False):
    pass


class PingRequest(TypedDict, total=False):
    pass


class PongResponse(TypedDict, total=False):
    FrontendAPICaps: Annotated[list[caps.APICap], 1]
    LLBCaps: Annotated[list[caps.APICap], 2]
    Workers: Annotated[list[worker.WorkerRecord], 3]


class WarnRequest(TypedDict, total=False):
    digest: Annotated[str, 1]
    level: Annotated[int, 2]
    short: Annotated[bytes, 3]
    detail: Annotated[list[bytes], 4]
    url: Annotated[str, 5]
    info: Annotated[ops.SourceInfo | None, 6]
    ranges: Annotated[list[ops.Range], 7]


class WarnResponse(TypedDict, total=False):
    pass


class NewContainerRequest(TypedDict, total=False):
    ContainerID: Annotated[str, 1]
    Mounts: Annotated[list[ops.Mount], 2]
    Network: Annotated[int, 3]
    platform: Annotated[ops.Platform | None, 4]
    constraints: Annotated[ops.WorkerConstraints | None, 5]
    extraHosts: Annotated[list[ops.HostIP], 6]
    hostname: Annotated[str, 7]


class NewContainerResponse(TypedDict, total=False):
    pass


class ReleaseContainerRequest(TypedDict, total=False):
    ContainerID: Annotated[str, 1]


class ReleaseContainerResponse(TypedDict, total=False):
    pass


class InitMessage(TypedDict, total=False):
    ContainerID: Annotated[str, 1]
    Meta: Annotated[ops.Meta | None, 2]
    Fds: Annotated[list[int], 3, UNSIGNED]
    Tty: Annotated[bool, 4]
    Security: Annotated[int, 5]
    secretenv: Annotated[list[ops.SecretEnv], 6]


class FdMessage(TypedDict, total=False):
    Fd: Annotated[int, 1, UNSIGNED]
    EOF: Annotated[bool, 2]
    Data: Annotated[bytes, 3]


class ResizeMessage(TypedDict, total=False):
    Rows: Annotated[int, 1, UNSIGNED]
    Cols: Annotated[int, 2, UNSIGNED]


class StartedMessage(TypedDict, total=False):
    pass


class ExitMessage(TypedDict, total=False):
    Code: Annotated[int, 1, UNSIGNED]
    Error: Annotated[Status | None, 2]


class DoneMessage(TypedDict, total=False):
    pass


class SignalMessage(TypedDict, total=False):
    Name: Annotated[str, 1]


class ExecMessage(TypedDict, total=False):
    ProcessID: Annotated[str, 1]
    Init: Annotated[InitMessage | None, 2]
    File: Annotated[FdMessage | None, 3]
    Resize: Annotated[ResizeMessage | None, 4]
    Started: Annotated[StartedMessage | None, 5]
    Exit: Annotated[ExitMessage | None, 6]
    Done: Annotated[DoneMessage | None, 7]
    Signal: Annotated[SignalMessage | None, 8]
