"""What BuildKit adds to an error (buildkit, solver/errdefs/errdefs.proto)."""

from typing import Annotated, TypedDict

from engine.daemon.buildkit.messages import ops


class Vertex(TypedDict, total=False):
    digest: Annotated[str, 1]


class Source(TypedDict, total=False):
    info: Annotated[ops.SourceInfo | None, 1]
    ranges: Annotated[list[ops.Range], 2]


class Frontend(TypedDict, total=False):
    name: Annotated[str, 1]
    source: Annotated[str, 2]


class FrontendCap(TypedDict, total=False):
    name: Annotated[str, 1]


class CompatibilityFeature(TypedDict, total=False):
    version: Annotated[int, 1]
    feature: Annotated[str, 2]


class Subrequest(TypedDict, total=False):
    name: Annotated[str, 1]


class FileAction(TypedDict, total=False):
    index: Annotated[int, 1]


class ContentCache(TypedDict, total=False):
    index: Annotated[int, 1]


class Solve(TypedDict, total=False):
    inputIDs: Annotated[list[str], 1]
    mountIDs: Annotated[list[str], 2]
    op: Annotated[ops.Op | None, 3]
    file: Annotated[FileAction | None, 4]
    cache: Annotated[ContentCache | None, 5]
    description: Annotated[dict[str, str], 6]


class ProvenanceMaterialIncomplete(TypedDict, total=False):
    op: Annotated[str, 1]
    name: Annotated[str, 2]
    method: Annotated[str, 3]
    uri: Annotated[str, 4]
    final_uri: Annotated[str, 5]
    reason: Annotated[str, 6]


class ProvenanceMaterialsIncomplete(TypedDict, total=False):
    incomplete: Annotated[list[ProvenanceMaterialIncomplete], 1]
