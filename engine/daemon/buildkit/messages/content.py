"""Reading and writing what a store keeps by its digest (containerd, api/services/content/v1/content.proto)."""

from typing import Annotated, TypedDict

from engine.daemon.buildkit.messages.known import Timestamp


class InfoRequest(TypedDict, total=False):
    digest: Annotated[str, 1]


class Info(TypedDict, total=False):
    digest: Annotated[str, 1]
    size: Annotated[int, 2]
    created_at: Annotated[Timestamp | None, 3]
    updated_at: Annotated[Timestamp | None, 4]
    labels: Annotated[dict[str, str], 5]


class InfoResponse(TypedDict, total=False):
    info: Annotated[Info | None, 1]


class ReadContentRequest(TypedDict, total=False):
    digest: Annotated[str, 1]
    offset: Annotated[int, 2]
    size: Annotated[int, 3]


class ReadContentResponse(TypedDict, total=False):
    offset: Annotated[int, 1]
    data: Annotated[bytes, 2]


STAT_BLOB, WRITE_BLOB, COMMIT_BLOB = range(3)
"""WriteAction."""


class WriteContentRequest(TypedDict, total=False):
    action: Annotated[int, 1]
    ref: Annotated[str, 2]
    total: Annotated[int, 3]
    expected: Annotated[str, 4]
    offset: Annotated[int, 5]
    data: Annotated[bytes, 6]
    labels: Annotated[dict[str, str], 7]


class WriteContentResponse(TypedDict, total=False):
    action: Annotated[int, 1]
    started_at: Annotated[Timestamp | None, 2]
    updated_at: Annotated[Timestamp | None, 3]
    offset: Annotated[int, 4]
    total: Annotated[int, 5]
    digest: Annotated[str, 6]
