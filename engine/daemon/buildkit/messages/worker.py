"""BuildKit's description of what builds (buildkit, api/types/worker.proto)."""

from typing import Annotated, TypedDict

from engine.daemon.buildkit.messages import ops


class GCPolicy(TypedDict, total=False):
    all: Annotated[bool, 1]
    keepDuration: Annotated[int, 2]
    reservedSpace: Annotated[int, 3]
    filters: Annotated[list[str], 4]
    maxUsedSpace: Annotated[int, 5]
    minFreeSpace: Annotated[int, 6]


class BuildkitVersion(TypedDict, total=False):
    package: Annotated[str, 1]
    version: Annotated[str, 2]
    revision: Annotated[str, 3]
    dockerfileVersion: Annotated[str, 4]


class CDIDevice(TypedDict, total=False):
    Name: Annotated[str, 1]
    AutoAllow: Annotated[bool, 2]
    Annotations: Annotated[dict[str, str], 3]
    OnDemand: Annotated[bool, 4]


class WorkerRecord(TypedDict, total=False):
    ID: Annotated[str, 1]
    Labels: Annotated[dict[str, str], 2]
    platforms: Annotated[list[ops.Platform], 3]
    GCPolicy: Annotated[list[GCPolicy], 4]
    BuildkitVersion: Annotated[BuildkitVersion | None, 5]
    CDIDevices: Annotated[list[CDIDevice], 6]
