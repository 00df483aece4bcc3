"""The messages of BuildKit's service Control (buildkit, api/services/control/control.proto)."""

from typing import Annotated, TypedDict

from engine.daemon.buildkit.messages import ops, policy, worker
from engine.daemon.buildkit.messages.known import Status, Timestamp

STARTED, COMPLETE, DELETED = range(3)
"""BuildHistoryEventType."""


class PruneRequest(TypedDict, total=False):
    filter: Annotated[list[str], 1]
    all: Annotated[bool, 2]
    keepDuration: Annotated[int, 3]
    reservedSpace: Annotated[int, 4]
    maxUsedSpace: Annotated[int, 5]
    minFreeSpace: Annotated[int, 6]


class DiskUsageRequest(TypedDict, total=False):
    filter: Annotated[list[str], 1]
    ageLimit: Annotated[int, 2]


class UsageRecord(TypedDict, total=False):
    ID: Annotated[str, 1]
    Mutable: Annotated[bool, 2]
    InUse: Annotated[bool, 3]
    Size: Annotated[int, 4]
    Parent: Annotated[str, 5]
    CreatedAt: Annotated[Timestamp | None, 6]
    LastUsedAt: Annotated[Timestamp | None, 7]
    UsageCount: Annotated[int, 8]
    Description: Annotated[str, 9]
    RecordType: Annotated[str, 10]
    Shared: Annotated[bool, 11]
    Parents: Annotated[list[str], 12]


class DiskUsageResponse(TypedDict, total=False):
    record: Annotated[list[UsageRecord], 1]


class CacheOptionsEntry(TypedDict, total=False):
    Type: Annotated[str, 1]
    Attrs: Annotated[dict[str, str], 2]


class CacheOptions(TypedDict, total=False):
    ExportRefDeprecated: Annotated[str, 1]
    ImportRefsDeprecated: Annotated[list[str], 2]
    ExportAttrsDeprecated: Annotated[dict[str, str], 3]
    Exports: Annotated[list[CacheOptionsEntry], 4]
    Imports: Annotated[list[CacheOptionsEntry], 5]


class Exporter(TypedDict, total=False):
    Type: Annotated[str, 1]
    Attrs: Annotated[dict[str, str], 2]


class SolveRequest(TypedDict, total=False):
    Ref: Annotated[str, 1]
    Definition: Annotated[ops.Definition | None, 2]
    ExporterDeprecated: Annotated[str, 3]
    ExporterAttrsDeprecated: Annotated[dict[str, str], 4]
    Session: Annotated[str, 5]
    Frontend: Annotated[str, 6]
    FrontendAttrs: Annotated[dict[str, str], 7]
    Cache: Annotated[CacheOptions | None, 8]
    Entitlements: Annotated[list[str], 9]
    FrontendInputs: Annotated[dict[str, ops.Definition], 10]
    Internal: Annotated[bool, 11]
    SourcePolicy: Annotated[policy.Policy | None, 12]
    Exporters: Annotated[list[Exporter], 13]
    EnableSessionExporter: Annotated[bool, 14]
    SourcePolicySession: Annotated[str, 15]
    CompatibilityVersion: Annotated[int, 16]
    ProxyNetwork: Annotated[bool, 17]


class SolveResponse(TypedDict, total=False):
    ExporterResponse: Annotated[dict[str, str], 1]


class StatusRequest(TypedDict, total=False):
    Ref: Annotated[str, 1]


class Vertex(TypedDict, total=False):
    digest: Annotated[str, 1]
    inputs: Annotated[list[str], 2]
    name: Annotated[str, 3]
    cached: Annotated[bool, 4]
    started: Annotated[Timestamp | None, 5]
    completed: Annotated[Timestamp | None, 6]
    error: Annotated[str, 7]
    progressGroup: Annotated[ops.ProgressGroup | None, 8]


class VertexStatus(TypedDict, total=False):
    ID: Annotated[str, 1]
    vertex: Annotated[str, 2]
    name: Annotated[str, 3]
    current: Annotated[int, 4]
    total: Annotated[int, 5]
    timestamp: Annotated[Timestamp | None, 6]
    started: Annotated[Timestamp | None, 7]
    completed: Annotated[Timestamp | None, 8]


class VertexLog(TypedDict, total=False):
    vertex: Annotated[str, 1]
    timestamp: Annotated[Timestamp | None, 2]
    stream: Annotated[int, 3]
    msg: Annotated[bytes, 4]


class VertexWarning(TypedDict, total=False):
    vertex: Annotated[str, 1]
    level: Annotated[int, 2]
    short: Annotated[bytes, 3]
    detail: Annotated[list[bytes], 4]
    url: Annotated[str, 5]
    info: Annotated[ops.SourceInfo | None, 6]
    ranges: Annotated[list[ops.Range], 7]


class StatusResponse(TypedDict, total=False):
    vertexes: Annotated[list[Vertex], 1]
    statuses: Annotated[list[VertexStatus], 2]
    logs: Annotated[list[VertexLog], 3]
    warnings: Annotated[list[VertexWarning], 4]


class BytesMessage(TypedDict, total=False):
    data: Annotated[bytes, 1]


class ListWorkersRequest(TypedDict, total=False):
    filter: Annotated[list[str], 1]


class ListWorkersResponse(TypedDict, total=False):
    record: Annotated[list[worker.WorkerRecord], 1]


class InfoRequest(TypedDict, total=False):
    pass


class InfoResponse(TypedDict, total=False):
    buildkitVersion: Annotated[worker.BuildkitVersion | None, 1]


class BuildHistoryRequest(TypedDict, total=False):
    ActiveOnly: Annotated[bool, 1]
    Ref: Annotated[str, 2]
    EarlyExit: Annotated[bool, 3]
    Filter: Annotated[list[str], 4]
    Limit: Annotated[int, 5]


class Descriptor(TypedDict, total=False):
    media_type: Annotated[str, 1]
    digest: Annotated[str, 2]
    size: Annotated[int, 3]
    annotations: Annotated[dict[str, str], 5]


class BuildResultInfo(TypedDict, total=False):
    ResultDeprecated: Annotated[Descriptor | None, 1]
    Attestations: Annotated[list[Descriptor], 2]
    Results: Annotated[dict[int, Descriptor], 3]


class BuildHistoryRecord(TypedDict, total=False):
    Ref: Annotated[str, 1]
    Frontend: Annotated[str, 2]
    FrontendAttrs: Annotated[dict[str, str], 3]
    Exporters: Annotated[list[Exporter], 4]
    error: Annotated[Status | None, 5]
    CreatedAt: Annotated[Timestamp | None, 6]
    CompletedAt: Annotated[Timestamp | None, 7]
    logs: Annotated[Descriptor | None, 8]
    ExporterResponse: Annotated[dict[str, str], 9]
    Result: Annotated[BuildResultInfo | None, 10]
    Results: Annotated[dict[str, BuildResultInfo], 11]
    Generation: Annotated[int, 12]
    trace: Annotated[Descriptor | None, 13]
    pinned: Annotated[bool, 14]
    numCachedSteps: Annotated[int, 15]
    numTotalSteps: Annotated[int, 16]
    numCompletedSteps: Annotated[int, 17]
    externalError: Annotated[Descriptor | None, 18]
    numWarnings: Annotated[int, 19]


class BuildHistoryEvent(TypedDict, total=False):
    type: Annotated[int, 1]
    record: Annotated[BuildHistoryRecord | None, 2]


class UpdateBuildHistoryRequest(TypedDict, total=False):
    Ref: Annotated[str, 1]
    Pinned: Annotated[bool, 2]
    Delete: Annotated[bool, 3]
    Finalize: Annotated[bool, 4]


class UpdateBuildHistoryResponse(TypedDict, total=False):
    pass
