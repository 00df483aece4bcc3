"""Read a container's health check from its Config, and decide from a probe's result whether it is healthy.

Pure; used by the requests' threads and by the threads that run probes (`probing`). The rules are dockerd's.
"""

from collections.abc import Sequence

from engine.daemon.clock import SECOND
from engine.daemon.containers.record import Health, Probe
from engine.daemon.containers.shapes import Config
from engine.dataclass import dataclass, replace

HEALTHY, UNHEALTHY, STARTING = "healthy", "unhealthy", "starting"
CUT_SHORT = -1
"""The exit code of a probe that was not run to its end."""
MOST_OUTPUT = 4096
"""Bytes of a probe's output that are kept."""
MOST_KEPT = 5
"""Probes that the log of a health check holds."""

_DEFAULT_INTERVAL_NS = 30 * SECOND
_DEFAULT_TIMEOUT_NS = 30 * SECOND
_DEFAULT_START_INTERVAL_NS = 5 * SECOND
_DEFAULT_RETRIES = 3
_DEFAULT_SHELL = ("/bin/sh", "-c")
# The range that a client may ask for. The times of an image are not checked when they are taken over, and could be any
# number.
_SHORTEST_NS = SECOND // 1000
_LONGEST_NS = (1 << 63) - 1
_UNITS = ((3600 * SECOND, "h"), (60 * SECOND, "m"))


@dataclass(frozen=True, slots=True)
class Check:
    """How a container is probed; times in nanoseconds. retries: failures in a row that make it unhealthy."""

    command: tuple[str, ...]
    interval_ns: int = _DEFAULT_INTERVAL_NS
    timeout_ns: int = _DEFAULT_TIMEOUT_NS
    start_period_ns: int = 0
    start_interval_ns: int = _DEFAULT_START_INTERVAL_NS
    retries: int = _DEFAULT_RETRIES


def check_of(config: Config) -> Check | None:
    """The health check of a complete, merged Config; None when there is none, or none of a kind that dockerd runs."""
    asked = config["Healthcheck"] or {}
    command = _command(asked.get("Test") or (), config["Shell"])
    if not command:
        return None
    return Check(
        command=command,
        interval_ns=_time(asked.get("Interval"), _DEFAULT_INTERVAL_NS),
        timeout_ns=_time(asked.get("Timeout"), _DEFAULT_TIMEOUT_NS),
        start_period_ns=_time(asked.get("StartPeriod"), 0),
        start_interval_ns=_time(asked.get("StartInterval"), _DEFAULT_START_INTERVAL_NS),
        retries=max(asked.get("Retries") or 0, 0) or _DEFAULT_RETRIES,
    )


def _command(test: Sequence[str], shell: list[str] | None) -> tuple[str, ...]:
    kind, words = test[0] if test else "", tuple(test[1:])
    if kind == "CMD":
        return words
    if kind == "CMD-SHELL":
        return (*(shell or _DEFAULT_SHELL), *words)
    return ()  # NONE, or an unknown word, which dockerd accepts and for which it runs nothing


def _time(value: int | None, default: int) -> int:
    return min(max(value, _SHORTEST_NS), _LONGEST_NS) if value else default


def begun(before: Health | None) -> Health:
    """The health of a container that has just been started, or found again; the log of earlier probes is kept."""
    return Health(STARTING, 0, before.log if before else ())


def halted(before: Health) -> Health:
    """The health of a container that is paused or has ended: it is not probed, and dockerd shows it as unhealthy."""
    return replace(before, status=UNHEALTHY)


def judged(before: Health, check: Check, probe: Probe, started_ns: int) -> Health:
    """The health after a probe of a container that was started at `started_ns`."""
    log = (*before.log, probe)[-MOST_KEPT:]
    if probe.exit_code == 0:
        return Health(HEALTHY, 0, log)
    if before.status == STARTING and probe.start_ns - started_ns < check.start_period_ns:
        return replace(before, log=log)
    streak = before.failing_streak + 1
    return Health(UNHEALTHY if streak >= check.retries else before.status, streak, log)


def next_in_ns(health: Health, check: Check, since_start_ns: int) -> int:
    """The nanoseconds to wait for the next probe, from the end of the last one, or from the start."""
    if health.status == STARTING and since_start_ns < check.start_period_ns:
        return check.start_interval_ns
    return check.interval_ns


def shown_output(output: bytes) -> str:
    """A probe's output as its log shows it; `output` has one byte more than is kept when there was more."""
    cut = "..." if len(output) > MOST_OUTPUT else ""
    return output[:MOST_OUTPUT].decode("utf-8", "replace") + cut


def overdue(check: Check, output: bytes) -> str:
    """The text that the log shows for a probe that took too long."""
    said = shown_output(output)
    return f"Health check exceeded timeout ({go_duration(check.timeout_ns)})" + (f": {said}" if said else "")


def go_duration(nanoseconds: int) -> str:
    """A length of time as Go prints it: `1.5s`, `30s`, `1m0s`, `2h0m0.5s`, `150ms`, `1.5µs`."""
    if nanoseconds < SECOND:
        for size, unit in ((1_000_000, "ms"), (1_000, "µs")):
            if nanoseconds >= size:
                return f"{_decimal(nanoseconds, size)}{unit}"
        return f"{nanoseconds}ns" if nanoseconds else "0s"
    text = ""
    for size, unit in _UNITS:
        count, nanoseconds = divmod(nanoseconds, size)
        if count or text:
            text += f"{count}{unit}"
    return f"{text}{_decimal(nanoseconds, SECOND)}s"


def _decimal(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    digits = len(str(unit)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0") if rest else str(whole)
