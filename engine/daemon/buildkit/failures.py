"""How a failed build is told: the words, and the details from which a client draws the lines of the Dockerfile.

The details are those of BuildKit: messages of JSON, named by their Go types.
"""

import contextlib
import json
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from engine.daemon.buildkit import policyevaluator
from engine.daemon.buildkit.faultwords import words_of
from engine.daemon.buildkit.messages import policy
from engine.daemon.buildkit.messages.known import AnyMessage, Status
from engine.daemon.buildkit.serving import Cancelled, status_of
from engine.daemon.buildkit.subrequests.excerpts import ranges
from engine.daemon.buildkit.subrequests.source import Source
from engine.daemon.buildkit.syntaxes import OtherFrontend
from engine.daemon.buildkit.told import Vertices
from engine.daemon.dockerfile.statements import Misplaced
from engine.daemon.jsontext import Object
from engine.errors import CommandFailed, EngineError, NotBuilt, Unavailable
from engine.protocols import grpc, protobuf

_TYPES = "github.com/moby/buildkit/"
_SHOWN = (NotBuilt, Cancelled, Unavailable)


class Failing:
    """Wraps the part of a build that follows the Dockerfile: an EngineError leaves it as a `grpc.Failed` with details.

    name: of the Dockerfile; text: its bytes; output: knows where it failed
    """

    def __init__(self, name: str, text: bytes, output: Vertices) -> None:
        self._name = name
        self._text = text
        self._output = output

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            return
        words = words_of(error) if isinstance(error, EngineError) else "internal error"
        if isinstance(error, EngineError) and not isinstance(error, grpc.Failed):
            raise grpc.Failed(self._status(error, words)) from error

    def _status(self, error: EngineError, words: str) -> grpc.Status:
        code = code_of(error)
        details: list[AnyMessage] = []
        lines = self._lines(error)
        if lines is not None:
            source = Source(self._name, self._text)
            info = {"filename": source.name, "data": source.encoded, "language": "Dockerfile"}
            details.append(detail("errdefs.Source", {"info": info, "ranges": ranges(*lines)}))
        if self._output.failed:
            details.append(detail("errdefs.Vertex", {"digest": self._output.failed}))
        if isinstance(error, CommandFailed):
            details.append(detail("gatewayapi.ExitMessage", {"Code": error.code}))
        details += denied(error)
        status: Status = {"code": code, "message": words, "details": details}
        return grpc.Status(code, words, protobuf.encode(Status, status))

    def _lines(self, error: EngineError) -> tuple[int, int] | None:
        """The lines of the Dockerfile that the error belongs to, None for none of them."""
        if isinstance(error, Misplaced):
            return error.first, error.last
        step = self._output.at
        return None if step is None else (step.line, step.last_line)


@contextlib.contextmanager
def plainly() -> Iterator[None]:
    """Wraps a whole build: an EngineError that belongs to no line leaves it as a `grpc.Failed` with words alone."""
    try:
        yield
    except (grpc.Failed, OtherFrontend):  # the one has its code, and the other is no failure
        raise
    except EngineError as error:
        code, words = code_of(error), words_of(error)
        status: Status = {"code": code, "message": words, "details": denied(error)}
        details = protobuf.encode(Status, status) if status["details"] else b""
        raise grpc.Failed(grpc.Status(code, words, details)) from error


def denied(error: EngineError) -> list[AnyMessage]:
    """The detail with the client's own words for a source that it has denied; none for another failure."""
    messages = [{"message": each} for each in policyevaluator.reasons(error)]
    value = {"action": policy.DENY, "denyMessages": messages}
    return [detail("policysession.DecisionResponse", value)] if messages else []


@contextlib.contextmanager
def reasoned() -> Iterator[None]:
    """Wraps a call: one that fails because the client has denied a source tells why, which the client draws."""
    try:
        yield
    except EngineError as error:
        details = [] if isinstance(error, grpc.Failed) else denied(error)
        if not details:
            raise
        code, words = status_of(error).code, words_of(error)
        told: Status = {"code": code, "message": words, "details": details}
        raise grpc.Failed(grpc.Status(code, words, protobuf.encode(Status, told))) from error


def code_of(error: EngineError) -> int:
    """The code of a failed build, nearly always UNKNOWN as BuildKit's: a client shows any other before the words."""
    return status_of(error).code if isinstance(error, _SHOWN) else grpc.UNKNOWN


def detail(name: str, value: Object) -> AnyMessage:
    """One detail of a failure. name: its Go type, within BuildKit's module; value: its fields as Go's JSON has them"""
    return {"type_url": f"{_TYPES}{name}+json", "value": json.dumps(value, separators=(",", ":")).encode()}
