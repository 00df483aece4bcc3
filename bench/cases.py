"""Declares the benchmark cases, which are the rows of the table in their order, with title, unit and goal, and the rows
of the table of growth. Pure data.
"""

from dataclasses import dataclass

OURS = "engine"
"""The column of this engine, with which the others are compared."""

BEST_PEER = "the best peer"
"""Stands in a goal for the best figure of the other engines."""


@dataclass(frozen=True, slots=True)
class Goal:
    """The project's goal for a case: a figure, or a multiple of another figure of the same run.

    of: the column whose figure is multiplied by `value`, or BEST_PEER; empty when `value` is the figure itself
    case: the row of that figure; empty for the goal's own row
    """

    value: float
    of: str = ""
    case: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the table.

    key:     its name in the tests and in `--cases`; unit: of its figures; less: True when smaller figures are better
    goal:    the project's goal, None when none is set; besides: a second goal
    default: False for a case that runs only when it is named
    """

    key: str
    title: str
    unit: str
    less: bool
    goal: Goal | None = None
    default: bool = True
    besides: Goal | None = None

    def advantage(self, ours: float, theirs: float) -> float:
        """How many times better `ours` is than `theirs`; below 1 it is worse."""
        return theirs / ours if self.less else ours / theirs


CASES = (
    Case("flow_none", "create, start, wait, logs, delete; network none", "ms", True, Goal(1, "crun run")),
    Case("flow_host", "the same flow, network host", "ms", True),
    Case("flow_bridge", "the same flow, network bridge", "ms", True, Goal(1.3, OURS, "flow_none")),
    Case("thousand", "1,000 flows, one after another: the last hundred over the first hundred", "x", True, Goal(1.1)),
    Case("connect", "connect of a running container to a network", "ms", True, Goal(3)),
    Case("crowd", "200 containers on one network: start of the last ten over the first ten", "x", True, Goal(1.2)),
    Case("exec", "exec: create, start attached, inspect", "ms", True, Goal(2.5), besides=Goal(0.5, "crun exec")),
    Case("parallel", "64 containers, 16 at a time", "containers/s", False, Goal(250)),
    Case(
        "logs_write", "container's stdout into the log, 100-byte lines", "MB/s", False, Goal(0.85, "yes | cat > file")
    ),
    Case("logs_read", "GET logs of the same", "MB/s", False, Goal(2000)),
    Case("logs_tail", "GET logs, tail=10 of the same", "ms", True, Goal(1)),
    Case("json_write", "stdout into a log of json-file", "MB/s", False, Goal(0.5, "yes | cat > file")),
    Case("json_read", "GET logs of the same", "MB/s", False, Goal(500)),
    Case("json_tail", "GET logs, tail=10 of the same", "ms", True, Goal(1)),
    Case("json_since", "GET logs, since its end, of the same", "ms", True, Goal(1)),
    Case("attach", "attached stream, 100-byte lines", "MB/s", False, Goal(1500)),
    Case("stats", "processor time to stream the stats of 50 containers", "% of a core", True, Goal(2)),
    Case("followers", "processor time for a line that 100 clients follow", "ms", True),
    Case("waiters_memory", "memory of 1,000 clients in wait (PSS)", "MB", True, Goal(8)),
    Case("waiters_busy", "processor time of the same", "% of a core", True),
    Case("traffic", "stream between two containers, large writes", "GB/s", False, Goal(0.95, "veth + bridge")),
    Case("round_trips", "one byte there and back", "round trips/s", False, Goal(0.95, "veth + bridge")),
    Case("lookups", "names of containers looked up", "answers/s", False, Goal(10000)),
    Case("port_memory", "the engine's memory per published port (PSS)", "KB", True, Goal(20)),
    Case("ping", "GET /_ping, one connection", "requests/s", False, Goal(2, BEST_PEER)),
    Case("list", "GET /containers/json?all=1, 100 containers", "requests/s", False, Goal(2, BEST_PEER)),
    Case("inspect", "GET /containers/ID/json", "requests/s", False, Goal(2, BEST_PEER)),
    Case("memory_idle", "idle memory of all engine processes (PSS)", "MB", True, Goal(16)),
    Case("memory_after", "the same after 20 containers came and went", "MB", True),
    Case("memory_container", "the engine's memory per running container (PSS)", "MB", True, Goal(0.12)),
    Case("startup", "cold start to the first /_ping", "s", True, Goal(0.06)),
    Case("wakeup", "a sleeping engine: connection to the answer of /_ping", "ms", True, Goal(100)),
    Case("wakeup_list", "the same, list of containers", "ms", True, Goal(200)),
    Case("wakeup_many", "the same, /_ping with 100 containers", "ms", True, Goal(100)),
    Case("wakeup_cold", "the same with 100, with none of its files in memory", "ms", True, Goal(250)),
    Case("wakeup_ps", "docker ps (the CLI) of a sleeping engine with 110, 10 of which run", "ms", True, Goal(200)),
    Case("wakeup_thousand", "the same, /_ping with 1,000 containers", "ms", True, Goal(100)),
    Case("wakeup_thousand_list", "the same with 1,000, list of containers", "ms", True, Goal(200)),
    Case("asleep_memory", "memory of all processes of a sleeping engine (PSS)", "MB", True, Goal(1)),
    Case("asleep_generation", "what each of ten wakings leaves with its container (cgroup)", "MB", True, Goal(0.5)),
    Case("asleep_writes", "its writes in 10 seconds", "calls", True),
    Case("bundle_size", "the engine in one file, daemon and client", "MB", True, Goal(1)),
    Case("pull", "pull of a Debian of 204 MB, local registry", "s", True, Goal(0.8, "curl | tar -xz")),
    Case("pull_layers", "pull of the same in 8 layers", "s", True, Goal(0.5, "curl | tar -xz")),
    Case("load", "load of the same", "s", True, Goal(1, "tar -x")),
    Case("save", "save of the same", "MB/s", False, Goal(0.7, "tar -c")),
    Case("rebuild", "build of 10 steps, all of them cached", "ms", True, Goal(100)),
    Case("run_step", "RUN in a build, over its command", "ms", True, Goal(8)),
    Case(
        "buildx_again", "docker build (BuildKit): 10 steps, 10,000 files, nothing new", "ms", True, Goal(0.5, "dockerd")
    ),
    Case("buildx_one", "the same with one file of the 10,000 changed", "ms", True),
    Case("buildx_sent", "docker build with a context of 200 MB that is new", "ms", True, Goal(0.5, "dockerd")),
    Case(
        "buildx_stages",
        "docker build of 8 independent stages: one after another over side by side",
        "x",
        False,
        Goal(1.8),
    ),
    Case("buildx_run", "RUN in docker build, over its command", "ms", True, Goal(20)),
    Case("buildx_memory", "memory at its most during these builds (PSS)", "MB", True, Goal(60)),
    Case("buildx_after", "the same five seconds after them", "MB", True),
    Case("pure_flow", "without the C part: create, start, wait, logs, delete; network none", "ms", True, Goal(15)),
    Case("pure_memory", "without it: memory per running container (PSS)", "MB", True, Goal(1)),
    Case("pure_logs_write", "without it: stdout into the log, 100-byte lines", "MB/s", False, Goal(300)),
    Case("pure_logs_read", "without it: GET logs of the same", "MB/s", False, Goal(300)),
    Case("pull_memory", "memory at its most during the pull (PSS)", "MB", True, Goal(60)),
    Case("load_memory", "the same during the load", "MB", True, Goal(60)),
    Case("save_memory", "the same during the save", "MB", True, Goal(60)),
)

BY_KEY = {case.key: case for case in CASES}

SIZES = (1, 10, 100, 1000)
"""How many of a thing there are, in the columns of the table of growth."""


@dataclass(frozen=True, slots=True)
class Growth:
    """One row of the table of growth: what an action of this engine costs while there are many of a thing."""

    key: str
    title: str
    unit: str = "ms"


GROWTH = (
    Growth("growth_containers_list", "containers: the list of all"),
    Growth("growth_containers_inspect", "containers: one of them, inspected"),
    Growth("growth_containers_flow", "containers: one more, from create to delete"),
    Growth("growth_running_flow", "running containers: one more, from create to delete"),
    Growth("growth_running_exec", "running containers: an exec in one of them"),
    Growth("growth_running_memory", "running containers: memory of the engine (PSS)", "MB"),
    Growth("growth_images_list", "images: the list of all"),
    Growth("growth_images_create", "images: a container of one of them, created and removed"),
    Growth("growth_networks_list", "networks: the list of all"),
    Growth("growth_networks_flow", "networks: a container on one of them, from create to delete"),
    Growth("growth_clients_ping", "clients that wait for a container: GET /_ping"),
    Growth("growth_clients_memory", "clients that wait for a container: memory of the engine (PSS)", "MB"),
)

GROWTH_BY_KEY = {row.key: row for row in GROWTH}


def chosen(text: str) -> tuple[str, ...]:
    """The keys of both tables that a comma-separated choice names, in their order; a word names each key that begins
    with it.

    The empty text names every default case, `all` names all cases. Raises ValueError, naming a word that fits no key.
    """
    words = [word for word in text.split(",") if word]
    keys = (*BY_KEY, *GROWTH_BY_KEY)
    for word in words:
        if word != "all" and not any(key.startswith(word) for key in keys):
            raise ValueError(f"no such case: {word} (there are {', '.join(keys)})")
    if not words:
        return tuple(key for key in keys if key not in BY_KEY or BY_KEY[key].default)
    return tuple(key for key in keys if "all" in words or key.startswith(tuple(words)))
