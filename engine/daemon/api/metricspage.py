"""GET /metrics: what the daemon has measured, in the text form of Prometheus (exposition format 0.0.4).

Loaded by a daemon with `--metrics-addr` alone, which serves this page on a socket of its own, without asking who the
client is. Names, labels and help texts are dockerd's. Not there are those of Go's runtime (go_*), and those of the log
drivers (logger_*), which run in the monitors.
"""

import os
import resource
from collections.abc import Iterator, Sequence

from engine.daemon import info as facts
from engine.daemon import measured
from engine.daemon.api.answers import Response, Text
from engine.daemon.api.request import Request
from engine.daemon.images import platform
from engine.daemon.parts import DaemonParts
from engine.settings.storagedriver import reported

_TYPE = "text/plain; version=0.0.4; charset=utf-8; escaping=values"
_PREFIX = "engine_daemon_"
_COUNTERS = (
    ("health_checks", "The total number of health checks"),
    ("health_checks_failed", "The total number of failed health checks"),
    ("events", "The number of events logged"),
)
_BUILD_FAILURES = (
    "build_canceled",
    "build_target_not_reachable_error",
    "command_not_supported_error",
    "dockerfile_empty_error",
    "dockerfile_syntax_error",
    "error_processing_commands_error",
    "missing_onbuild_arguments_error",
    "unknown_instruction_error",
)
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})

Labels = Sequence[tuple[str, str]]


class MetricsPage:
    """The application of the socket for metrics, see `acceptor`."""

    def __init__(self, engine: DaemonParts) -> None:
        self._engine = engine

    def __call__(self, request: Request) -> Response:
        """The page, whatever the method and the query; any other path is not found."""
        if request.path != "/metrics":
            return Text("404 page not found\n", 404)
        return Response(200, _TYPE, "".join(lines(self._engine)).encode())


def lines(engine: DaemonParts) -> Iterator[str]:
    """The page, line by line, sorted by name as Prometheus's own libraries do it."""
    for name, kind, help_, samples in sorted(_families(engine)):
        yield f"# HELP {name} {help_}\n# TYPE {name} {kind}\n"
        yield from samples


_Family = tuple[str, str, str, list[str]]


def _families(engine: DaemonParts) -> Iterator[_Family]:
    """(name, kind, help, samples) of each family."""
    yield from _timers()
    for name, help_ in _COUNTERS:
        found = engine.events.published if name == "events" else measured.counted(name)
        yield _family(f"{_PREFIX}{name}_total", "counter", help_, [((), found)])
    yield _family(
        "builder_builds_triggered_total",
        "counter",
        "Number of triggered image builds",
        [((), measured.counted("builds_triggered"))],
    )
    yield _family(
        "builder_builds_failed_total",
        "counter",
        "Number of failed image builds",
        [((("reason", each),), measured.counted("builds_failed", each)) for each in _BUILD_FAILURES],
    )
    yield _family(
        f"{_PREFIX}events_subscribers_total",
        "gauge",
        "The number of current subscribers to events",
        [((), engine.events.listeners)],
    )
    counts = facts.container_counts(engine)
    states = [((("state", name.lower()),), counts[f"Containers{name}"]) for name in ("Paused", "Running", "Stopped")]
    yield _family(f"{_PREFIX}container_states_containers", "gauge", "The count of containers in various states", states)
    yield from _host(engine)
    yield from _process()


def _family(name: str, kind: str, help_: str, samples: Sequence[tuple[Labels, float]]) -> _Family:
    return name, kind, help_, [_sample(name, labels, value) for labels, value in samples]


def _sample(name: str, labels: Labels, value: float) -> str:
    told = ",".join(f'{key}="{text.translate(_ESCAPES)}"' for key, text in labels)
    return f"{name}{{{told}}} {_number(value)}\n" if told else f"{name} {_number(value)}\n"


def _number(value: float) -> str:
    return repr(value).removesuffix(".0")


def _timers() -> Iterator[_Family]:
    found = measured.durations()
    for family, (label, help_) in measured.TIMERS.items():
        name = f"{_PREFIX}{family}_seconds"
        samples = []
        for (of, action), each in sorted(found.items()):
            if of != family:
                continue
            told = ((label, action),) if label else ()
            bounds = [*map(_number, measured.BUCKETS), "+Inf"]
            for bound, number in zip(bounds, [*each.buckets, each.count], strict=True):
                samples.append(_sample(f"{name}_bucket", (*told, ("le", bound)), number))
            samples += [_sample(f"{name}_sum", told, each.seconds), _sample(f"{name}_count", told, each.count)]
        if samples:
            yield name, "histogram", help_, samples


def _host(engine: DaemonParts) -> Iterator[_Family]:
    release, system = facts.read_os_release(), os.uname()
    labels = (
        ("architecture", platform.host().architecture),
        ("commit", ""),
        ("daemon_id", engine.id),
        ("graphdriver", reported(engine.settings.storage_driver, engine.storage == "copy")),
        ("kernel", system.release),
        ("os", release.get("PRETTY_NAME", "Linux")),
        ("os_type", "linux"),
        ("os_version", release.get("VERSION_ID", "")),
        ("version", engine.settings.report_version),
    )
    said = "The information related to the engine and the OS it is running on"
    yield _family(f"{_PREFIX}engine_info", "gauge", said, [(labels, 1)])
    said = "The number of cpus that the host system of the engine has"
    yield _family(f"{_PREFIX}engine_cpus_cpus", "gauge", said, [((), len(os.sched_getaffinity(0)))])
    said = "The number of bytes of memory that the host system of the engine has"
    yield _family(f"{_PREFIX}engine_memory_bytes", "gauge", said, [((), facts.memory_total())])


def _process() -> Iterator[_Family]:
    """What Prometheus's libraries tell of each process (proc_pid_stat(5))."""
    with open("/proc/self/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    with open("/proc/stat") as file:
        booted = next((int(line.split()[1]) for line in file if line.startswith("btime ")), 0)
    user, system, started, size, resident = (int(fields[number]) for number in (11, 12, 19, 20, 21))
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    room, _ = resource.getrlimit(resource.RLIMIT_AS)
    for name, kind, help_, value in (
        ("cpu_seconds_total", "counter", "Total user and system CPU time spent in seconds.", (user + system) / ticks),
        ("max_fds", "gauge", "Maximum number of open file descriptors.", most),
        ("open_fds", "gauge", "Number of open file descriptors.", len(os.listdir("/proc/self/fd"))),
        ("resident_memory_bytes", "gauge", "Resident memory size in bytes.", resident * page),
        ("start_time_seconds", "gauge", "Start time of the process since unix epoch.", booted + started / ticks),
        ("virtual_memory_bytes", "gauge", "Virtual memory size in bytes.", size),
        ("virtual_memory_max_bytes", "gauge", "Maximum amount of virtual memory available in bytes.", room % (1 << 64)),
    ):
        yield _family(f"process_{name}", kind, help_, [((), value)])
