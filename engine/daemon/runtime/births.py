"""Requests for containers and execs that C makes alone, by a plan (`engine.sandbox.plan`).

`_muxer/process/launch.c` reads them. Used by the API's threads. A request is a mark, fields as in a plan, and the plan
as the last of them. Its descriptors are the link, then of a start the open log, of an exec a pidfd of process 1, and
then the clients. The daemon opens the log, because nothing runs without the log that it writes to, and a monitor in C
need know no more than how to append. What has no plan is asked for by a message, and made by Python.
"""

import contextlib
import functools
from collections.abc import Iterator

from engine import muxer
from engine.daemon.runtime.handshake import StartFailure
from engine.dataclass import replace
from engine.kernel import reasons
from engine.logs import opening
from engine.logs.openlog import OpenLog
from engine.sandbox import plan
from engine.sandbox.spec import Sandbox
from engine.wire import packed
from engine.wire.channel import BIRTH, BIRTH_ANEW, EXEC_BIRTH, EXEC_BIRTH_ANEW
from engine.wire.schema import Client, Exec, Failed, Start

_LARGEST = 64 * 1024  # of a datagram (`engine.wire.channel`)
_BOTH_OUTPUTS = 2 | 4


@functools.cache
def _possible(setting: str) -> bool:
    """Whether the spawner of a daemon with this `--muxer` obeys plans."""
    return muxer.select(setting) == "c" and plan.possible()


@contextlib.contextmanager
def start(
    setting: str, wanted: Sandbox, request: Start, *, ordinary: bool
) -> Iterator[tuple[Start | bytes, tuple[int, ...]]]:
    """What to ask the spawner for, and the descriptors of the log that go with it, which are closed afterwards.

    setting: `--muxer`; request: without its sandbox, which is `wanted`; ordinary: a spare may take it
    Raises StartFailure where the log cannot be opened.
    """
    made = None
    if request.log.forward is None and _possible(setting):
        made = plan.compiled(wanted)
    if made is None:
        yield _whole(request, wanted), ()
        return
    try:
        log = opening.open_log(request.log)
    except OSError as error:
        text = opening.REFUSED + reasons.of(error)
        raise StartFailure(Failed("log", error.errno or 0, text, opening.NOT_TRIED)) from error
    with log or contextlib.nullcontext():
        asked = (
            (BIRTH if ordinary else BIRTH_ANEW)
            + plan.packed(request.exec_dir, wanted.id, request.tty, request.stdin, request.stdin_once)
            + plan.packed(request.own_pids, _BOTH_OUTPUTS, log is not None)
            + (b"" if log is None else plan.packed(*_state(log)))
            + _clients(request.clients)
            + plan.packed(made)
        )
        if len(asked) > _LARGEST:
            yield _whole(request, wanted), ()
        else:
            yield asked, () if log is None else log.descriptors()


def _whole(request: Start, wanted: Sandbox) -> Start:
    """The request that Python in the spawner carries out."""
    return replace(request, sandbox=packed.pack(wanted))


def enter(setting: str, process: Sandbox, request: Exec, *, ordinary: bool) -> Exec | bytes:
    """What to ask the spawner for: the process beside process 1 `request.pid`. The other parameters are those of
    `start`.
    """
    made = plan.joined(process, request.pid, not request.traced) if _possible(setting) else None
    if made is not None:
        outputs = 0
        for client in request.clients:
            outputs |= client.streams
        asked = (
            (EXEC_BIRTH if ordinary else EXEC_BIRTH_ANEW)
            + plan.packed("", process.id, request.tty, request.stdin, True, False, outputs, False)
            + _clients(request.clients)
            + plan.packed(request.clients[0].head if request.clients else b"", made)
        )
        if len(asked) <= _LARGEST:
            return asked
    return replace(request, process=packed.pack(process))


def _state(log: OpenLog) -> tuple[int | bytes, ...]:
    """The fields of struct mux_log that C goes on with."""
    kinds = (log.json, log.compress, log.number, log.max_files, log.open_lines)
    return (*kinds, log.max_size, log.limit, log.position, log.records, log.last_ns, log.name)


def _clients(clients: tuple[Client, ...]) -> bytes:
    each = (plan.packed(client.streams, client.framed, client.replay, client.detach) for client in clients)
    return plan.packed(len(clients)) + b"".join(each)
