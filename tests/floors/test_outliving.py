"""What outlives the daemon (monitors, forwarders, resolver, proxy): what it may load and when, and what it leaves.

The words are in engine/README.md, "What outlives the daemon". `tests/api/test_releases.py` has two versions meet.
"""

import ast
from collections.abc import Iterator

from engine.spawner.modules import MODULES
from engine.wire import endpoint, exitfile, wakeup
from tests.floors.rooms import BASE
from tests.floors.sources import PROJECT, imports, module, walked
from tests.floors.test_imports import CONTAINER_TOWER, ENGINE_FILES, inside, loaded_by

PATHS = {module(path): path for path in ENGINE_FILES}
# Loaded by the spawner before it forks, whichever was chosen (`engine.monitor.parts`).
CHOSEN = {f"engine.monitor.{name}" for name in ("nativeprocess", "nativepump", "pump", "waiters")}
# Named in modules that both towers have, and called by the daemon alone.
DAEMONS = {
    "engine.kernel.bpf": "it makes the cgroups, and their device programs",
    "engine.re2.automaton": "it chooses a log's attributes before a container starts",
    "engine.sandbox.seccomp_profile": "it reads a client's profile; what a container gets is the finished program",
}
# The modules of the containers' tower that make a file, a directory or a socket on the host, and what.
MAKERS = {
    "engine.birth.hooks": "the bundle of a container whose devices have hooks",
    "engine.birth.viaruntime": "the bundle of a container that another runtime makes",
    "engine.wire.endpoint": "the sockets of monitors, of the resolver and of the proxy",
    "engine.wire.exitfile": "the exit file, and the crash file",
    "engine.logs.writer": "a log of frames",
    "engine.logs.jsonwriter": "a log of JSON lines",
    "engine.logs.drivers.pluginsender": "the FIFO of a log plugin, which goes with the container's directory",
    "engine.logs.compress": "older files of a log of JSON lines",
    "engine.proxy.reach": "no file: sockets with addresses of clients",
    "engine.resolver.served": "sockets in the containers' network namespaces",
}
ROOMS = (*(tower for tower in CONTAINER_TOWER if tower not in BASE), "engine.wire", "engine.logs")


def late_from(run: set[str], loaded: set[str]) -> set[str]:
    """The modules of the engine that those which are run, and those that they bring, import late and are not there."""
    found: set[str] = set()
    queue = [*run]
    for one in queue:
        for each in imports(PATHS[one]):
            if each.late and each.module in PATHS and each.module not in loaded | found | CHOSEN | DAEMONS.keys():
                brought = set(loaded_by(each.module)) - loaded - found
                found |= brought
                queue += brought
    return found


def test_what_is_loaded_after_the_spawner_has_settled_is_kept_in_memory() -> None:
    """Files may be another version's by then: all that is loaded late is in the spawner's list, and nothing else is."""
    run = set(loaded_by("engine.spawner.main"))
    for chosen in CHOSEN:
        run |= set(loaded_by(chosen))
    assert late_from(run, run | set(loaded_by("engine.boot"))) == set(MODULES)


def makers() -> Iterator[str]:
    """Each module of what outlives the daemon that makes something in the host's file system."""
    for path in ENGINE_FILES:
        if any(inside(module(path), room) for room in ROOMS):
            names = {node.attr for node in walked(path) if isinstance(node, ast.Attribute)}
            if names & {"O_CREAT", "bind", "makedirs", "mkdir", "mkfifo", "mknod", "symlink"}:
                yield module(path)


def test_only_known_modules_of_what_outlives_the_daemon_leave_anything() -> None:
    """A daemon of another version has to find all of it, and to clean it up."""
    assert set(makers()) == MAKERS.keys()


def test_the_papers_name_each_file_that_outlives_the_daemon() -> None:
    """By the names that a later version looks for."""
    paper = (PROJECT / "engine/README.md").read_text()
    crashes = (exitfile.EXIT, exitfile.CRASH, exitfile.RESOLVER_CRASH, exitfile.PROXY_CRASH)
    names = (wakeup.NAME, endpoint.NAME, endpoint.RESOLVER, endpoint.PROXY, *crashes)
    assert [name for name in names if f"`{name}`" not in paper] == []
