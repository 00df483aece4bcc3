"""Asks a client whether its session is well, for as long as a build needs it: a client may vanish without a word.

Runs in a thread of its own, at BuildKit's rhythm: a question each five seconds, half a minute for the answer, or half
as long again as the last answer took, and the session is lost with the second question in a row that is not answered.
A refusal is an answer too. After a failure five answers make the client a well one again.
"""

import time
from collections.abc import Callable

from engine.daemon.buildkit import methods
from engine.daemon.buildkit.calling import Outgoing
from engine.daemon.buildkit.link import Link, Lost
from engine.daemon.buildkit.messages.session import HealthCheckRequest, HealthCheckResponse
from engine.errors import EngineError
from engine.protocols import grpc

_PAUSE_SECONDS = 5.0
_ANSWER_SECONDS = 30.0
_WELL_AGAIN = 5
_LOOK_SECONDS = 1.0


class _Unwanted(EngineError):
    """Nobody wants to know any more."""


def follow(link: Link, unwanted: Callable[[], bool]) -> None:
    """Ask until the session ends, or is closed here because its client does not answer, or nobody wants to know."""
    failed, well, took = False, 0, 0.0
    next_at = time.monotonic() + _PAUSE_SECONDS
    while not unwanted():
        if time.monotonic() < next_at:
            time.sleep(min(_LOOK_SECONDS, _PAUSE_SECONDS))
            continue
        began = time.monotonic()
        try:
            answered = _answers(link, max(_ANSWER_SECONDS, 1.5 * took), unwanted)
        except (Lost, _Unwanted):  # the session has ended by itself, or need not be followed
            return
        took = time.monotonic() - began
        if not answered and failed:
            link.close()
            return
        well = well + 1 if answered else 0
        failed = not answered or (failed and well < _WELL_AGAIN)
        next_at = max(next_at + _PAUSE_SECONDS, time.monotonic())


def _answers(link: Link, seconds: float, unwanted: Callable[[], bool]) -> bool:
    """Whether the client answers in time. Raises Lost, _Unwanted."""

    def check() -> None:
        if unwanted():
            raise _Unwanted

    with Outgoing[HealthCheckRequest, HealthCheckResponse](
        link, methods.HEALTH, HealthCheckRequest, HealthCheckResponse, [], check
    ) as call:
        call.stream.deadline = time.monotonic() + seconds
        try:
            call.send({})
            call.end()
            call.receive()
        except grpc.Failed as error:
            return error.status.code != grpc.DEADLINE_EXCEEDED or time.monotonic() < call.stream.deadline
    return True
