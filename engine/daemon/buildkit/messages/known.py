"""Messages that everybody uses (protobuf, timestamp.proto and any.proto; googleapis, google/rpc/status.proto)."""

from typing import Annotated, TypedDict


class Timestamp(TypedDict, total=False):
    """A moment. nanos: 0 to 999,999,999, towards the future"""

    seconds: Annotated[int, 1]
    nanos: Annotated[int, 2]


class AnyMessage(TypedDict, total=False):
    """A message of a type that its name tells."""

    type_url: Annotated[str, 1]
    value: Annotated[bytes, 2]


class Status(TypedDict, total=False):
    """How a call failed. code: of gRPC"""

    code: Annotated[int, 1]
    message: Annotated[str, 2]
    details: Annotated[list[AnyMessage], 3]


def moment(nanoseconds: int) -> Timestamp:
    """The message of a time in nanoseconds since 1970."""
    seconds, nanos = divmod(nanoseconds, 1_000_000_000)
    return {"seconds": seconds, "nanos": nanos}
