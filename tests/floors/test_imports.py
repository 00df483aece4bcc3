"""Imports go down: the direction between rooms, what is third-party, and what an idle daemon must not load."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.floors.rooms import BASE, DAEMONS_OWN, OPEN_TO_ALL, ROOMS, TYPES
from tests.floors.sources import PROJECT, Import, exists, files, imports, module, name_of, of_types, walked

DAEMON_TOWER = ("engine.daemon", "engine.client")
CONTAINER_TOWER = (
    "engine.spawner",
    "engine.resolver",
    "engine.proxy",
    "engine.monitor",
    "engine.birth",
    *BASE,
)
# What costs an idle daemon memory and start-up time. It is fine inside a function, with the reason beside it, and in a
# module that is itself only imported inside functions.
HEAVY = ("http", "ssl", "email", "tarfile", "urllib.request", "asyncio", "hashlib", "shutil", "subprocess")
IDLE = ("engine.boot", "engine.daemon.main", "engine.spawner.main", "engine.rootless.arrival")
# What comes with the first container, or the first question about one.
FIRST_CONTAINER = (
    *(f"engine.daemon.containers.{name}" for name in ("verbs", "mounts", "health", "output.logconfig")),
    *("engine.daemon.containers.security.walls", "engine.daemon.api.handlers.containers.everyday"),
)
# What a process with one thread has no use for; a daemon must have it before it has threads (see `engine.daemon.main`).
THREADED = ("typing",)
# What a daemon loads for its first image: it stays for good, so it is not to bring along what others need.
FIRST_IMAGE = ("engine.daemon.images.verbs.import_", "engine.daemon.images.layers.unpack", "engine.daemon.tar.ahead")
# Of the networks, what is there before anybody has asked for one: rows, and small doors to the rest.
IDLE_NETWORK = {
    "engine.daemon.network",
    *(f"engine.daemon.network.{name}" for name in ("record", "networks", "wiring", "ports", "names")),
    *(f"engine.daemon.network.{name}" for name in ("firewall", "firewall.control")),
}
ENGINE_FILES = files(".py", trees=("engine",))
ENGINE_MODULES = {module(path): path for path in ENGINE_FILES}


def inside(name: str, room: str) -> bool:
    """Whether a module is in a room."""
    return name == room or name.startswith(room + ".")


def room(name: str) -> str | None:
    """The room of a module: the longest listed name that it is in."""
    return max((known for known in ROOMS if inside(name, known)), key=len, default=None)


def every_import() -> Iterator[tuple[str, str, Import]]:
    """Each import of the engine's: where it stands, the module that it stands in, and itself."""
    for path in ENGINE_FILES:
        for found in imports(path):
            yield f"{name_of(path)}:{found.line}", module(path), found


def allowed(own: str, other: str) -> bool:
    """Whether a module of the room may import this one: of its own room, a listed room, or what is open to all."""
    if (
        other == "engine"
        or other.split(".")[0] not in ("engine", "_muxer")
        or any(inside(other, room) for room in OPEN_TO_ALL)
    ):
        return True
    if own != "engine.daemon" and inside(other, own):
        return True
    if inside(own, "engine.daemon") and other in DAEMONS_OWN:
        return True
    return any(inside(other, listed) for listed in ROOMS[own])


def test_each_module_has_its_place() -> None:
    """In a room that is listed, but for the package itself."""
    assert [module(path) for path in ENGINE_FILES if room(module(path)) is None] == ["engine"]


def test_imports_go_down() -> None:
    """From each room to those that are listed for it."""
    found = [(place, room(name), one.module) for place, name, one in every_import()]
    assert not [
        f"{place}: {own} must not import {other}" for place, own, other in found if own and not allowed(own, other)
    ]


def forbidden_to(name: str) -> tuple[str, ...]:
    """The rooms of the other tower: of daemon and client, or of spawner, monitor and init."""
    if any(inside(name, tower) for tower in CONTAINER_TOWER):
        return DAEMON_TOWER
    if any(inside(name, tower) for tower in DAEMON_TOWER):
        return tuple(tower for tower in CONTAINER_TOWER if tower not in BASE)
    return ()


def test_the_towers_never_import_each_other() -> None:
    """The container tower knows nothing of daemon and client, and they nothing of spawner, monitor and init."""
    assert not [
        f"{place}: {found.module}"
        for place, name, found in every_import()
        if any(inside(found.module, tower) for tower in forbidden_to(name))
    ]


def test_the_engine_imports_the_standard_library_only() -> None:
    """A clone is an install: nothing third-party in engine/, and no module of the project that is not there."""
    ours = ("engine", "_muxer")
    for place, _, found in every_import():
        top = found.module.split(".")[0]
        assert top in ours or top in sys.stdlib_module_names, f"{place}: {top}"
        assert top != "engine" or exists(found.module), f"{place}: no module {found.module}"


def late_in(path: Path) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """For each `if TYPE_CHECKING:` with an `else:`: what a type checker imports, what Python stands in for, by name."""
    for node in walked(path):
        if not of_types(node) or not node.orelse:
            continue
        if all(isinstance(one, ast.Assign) and isinstance(one.value, ast.Call) for one in node.orelse):
            told = [inner for inner in node.body if isinstance(inner, ast.ImportFrom)]
            seen = {name.asname or name.name: f"{one.module}.{name.name}" for one in told for name in one.names}
            made = {ast.unparse(one.targets[0]): ast.literal_eval(one.value.args[0]) for one in node.orelse}
            yield seen, made


def test_what_is_imported_late_goes_through_one_helper() -> None:
    """No function imports a module of the engine: `engine.late` stands for what is not to be loaded yet."""
    places = [
        f"{name_of(path)}:{inner.lineno}"
        for path in ENGINE_FILES
        for function in walked(path)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for inner in ast.walk(function)
        if isinstance(inner, ast.ImportFrom) and (inner.module or "").split(".")[0] in ("engine", "_muxer")
    ]
    assert places == []


def test_a_stand_in_is_for_the_module_that_a_type_checker_sees() -> None:
    """But for types alone, the two branches name the same modules."""
    different = []
    for path in ENGINE_FILES:
        for seen, made in late_in(path):
            modules = {name: full for name, full in seen.items() if exists(full)}
            if modules != made:
                different.append(name_of(path))
    assert different == []


def test_nothing_waits_that_is_there_anyway() -> None:
    """What a module's other imports load already is imported with them."""
    needless = []
    for path in ENGINE_FILES:
        waiting = [full for _, made in late_in(path) for full in made.values()]
        there = loaded_by(module(path)) if waiting else {}
        needless += [f"{name_of(path)}: {full}" for full in waiting if full in there]
    assert needless == []


def annotations(node: ast.AST) -> list[ast.expr | None]:
    """Those of a node that Python evaluates as it defines a function or a class, before 3.14."""
    match node:
        case ast.arg():
            return [node.annotation]
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return [node.returns]
        case ast.ClassDef():
            return [one.annotation for one in node.body if isinstance(one, ast.AnnAssign)]
    return []


def test_no_annotation_loads_what_waits() -> None:
    """A type of a module that is loaded late stands in quotes."""
    loading = []
    for path in ENGINE_FILES:
        waiting = {name for _, made in late_in(path) for name in made}
        found = [each for node in walked(path) if waiting for each in annotations(node) if each is not None]
        loading += [
            f"{name_of(path)}:{inner.lineno}: {inner.id}"
            for each in found
            for inner in ast.walk(each)
            if isinstance(inner, ast.Name) and inner.id in waiting
        ]
    assert loading == []


def circles() -> list[list[str]]:
    """Groups of modules that need each other (Tarjan: strongly connected components), also by imports in functions."""
    needs = {name: {found.module for found in imports(path)} - {TYPES} for name, path in ENGINE_MODULES.items()}
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_: list[str] = []
    found = []

    def visit(name: str) -> None:
        order[name] = lowest[name] = len(order)
        open_.append(name)
        for other in needs[name] & needs.keys():
            if other not in order:
                visit(other)
            if other in open_:
                lowest[name] = min(lowest[name], lowest[other])
        if lowest[name] == order[name]:
            group = open_[open_.index(name) :]
            del open_[-len(group) :]
            if len(group) > 1:
                found.append(sorted(group))

    for name in needs:
        if name not in order:
            visit(name)
    return found


def test_no_modules_need_each_other() -> None:
    """No circle, between rooms or inside one."""
    assert not circles()


def test_the_parts_are_types_alone() -> None:
    """What every room of the daemon imports loads none of them."""
    script = f"import sys, {TYPES}; print(*(name for name in sys.modules if name.startswith('engine.')))"
    loaded = subprocess.run([sys.executable, "-S", "-c", script], cwd=PROJECT, capture_output=True, text=True)
    leaves = ["engine.annotating", "engine.late"]
    assert sorted(loaded.stdout.split()) == sorted(["engine.daemon", *leaves, TYPES]), loaded.stderr


def loaded_by(name: str) -> dict[str, str]:
    """Each module of the project that importing `name` loads, and which one brought it in."""
    brought = {name: ""}
    for one in (queue := [name]):
        for found in imports(ENGINE_MODULES[one]):
            if not found.late and found.module in ENGINE_MODULES and found.module not in brought:
                brought[found.module] = one
                queue.append(found.module)
    return brought


@pytest.mark.parametrize("name", IDLE)
def test_no_heavy_module_is_imported_at_the_top(name: str) -> None:
    """Memory and start-up are features: what an idle process loads imports nothing heavy at module level."""
    for one, by in loaded_by(name).items():
        path = PROJECT.joinpath(*one.split(".")).with_suffix(".py")
        for found in imports(path) if path.exists() else ():
            heavy = any(inside(found.module, bad) for bad in HEAVY)
            assert found.late or not heavy, f"{name_of(path)}:{found.line}: {found.module} (loaded by {by})"


@pytest.mark.parametrize("name", IDLE)
def test_what_an_idle_process_has_loaded_holds_nothing_heavy(name: str) -> None:
    """The same by experiment: no module brings in a heavy one by way of another."""
    script = f"import sys, {name}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-S", "-c", script], cwd=PROJECT, capture_output=True, text=True)
    assert loaded.returncode == 0, loaded.stderr
    unwanted = HEAVY if name == "engine.daemon.main" else (*HEAVY, *THREADED)
    heavy = [found for found in loaded.stdout.split() if any(inside(found, bad) for bad in unwanted)]
    assert not heavy


def test_an_idle_daemon_has_no_networks_but_their_rows() -> None:
    """Addresses, pools, drivers, devices and rules come with the first question about a network."""
    assert {name for name in loaded_by("engine.daemon.main") if inside(name, "engine.daemon.network")} <= IDLE_NETWORK


def test_an_idle_daemon_has_no_verbs_of_containers() -> None:
    """They are a tenth of its memory."""
    loaded = loaded_by("engine.daemon.main")
    assert not {name: by for name, by in loaded.items() if any(inside(name, room) for room in FIRST_CONTAINER)}


def test_the_first_image_does_not_bring_the_whole_house() -> None:
    """The grammar of Dockerfiles is for who builds, or imports with changes."""
    script = f"import sys, engine.daemon.main, {', '.join(FIRST_IMAGE)}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-S", "-c", script], cwd=PROJECT, capture_output=True, text=True)
    assert loaded.returncode == 0, loaded.stderr
    unwanted = (*HEAVY, "engine.daemon.dockerfile", "engine.daemon.builder", "uuid")
    assert not [found for found in loaded.stdout.split() if any(inside(found, bad) for bad in unwanted)]


def test_who_asks_a_builder_what_it_is_does_not_bring_what_builds() -> None:
    """A client's first calls (ListWorkers, Info): the one file has no code of those modules."""
    room = "engine.daemon.buildkit"
    script = f"import sys, engine.daemon.api.handlers.buildkit, {room}.workerservice; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-S", "-c", script], cwd=PROJECT, capture_output=True, text=True)
    assert loaded.returncode == 0, loaded.stderr
    unwanted = (
        f"{room}.controlservice",
        f"{room}.llb.solving",
        f"{room}.exporters",
        "engine.daemon.builder.converting",
    )
    assert not [found for found in loaded.stdout.split() if any(inside(found, bad) for bad in unwanted)]


def test_the_spawner_never_loads_the_daemon() -> None:
    """What every container's monitor shares with the spawner stays small."""
    script = "import sys, engine.spawner.main; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-S", "-c", script], cwd=PROJECT, capture_output=True, text=True)
    assert loaded.returncode == 0, loaded.stderr
    forbidden = ("engine.daemon", "engine.client", "sqlite3", "http", "socketserver")
    assert not [found for found in loaded.stdout.split() if any(inside(found, bad) for bad in forbidden)]


# Who else makes numbers of texts in the daemon, and why it may: the texts are the kernel's or the engine's own, or a
# pattern beside the call lets no more than a few ASCII digits through.
NUMBERS = {
    "a pattern bounds them": (
        *("api/body", "api/negotiation", "api/versions", "containers/endpoints/requested", "dockerfile/configure"),
        *("images/archives/members", "images/registry/writes", "jsontext", "moments", "network/addresses"),
        *("network/drivers/parents", "signals", "tar/reader", "tar/retime"),
    ),
    "the kernel's, the host's or the operator's": (
        *("api/listeners", "api/metricspage", "containers/contents/rootfs", "containers/mounts/preparing"),
        "containers/stats/samples",
        *("containers/top/psfields", "containers/top/table", "info", "main", "network/ports"),
    ),
    "the engine's own": (
        *("containers/security/resources", "images/layers/store", "images/verbs/remove", "network/drivers/bridge"),
        *("network/firewall/rules", "network/pools", "network/subnets", "locks"),
    ),
    "of numbers": (
        *("api/connection", "builder/copying/fetching", "builder/copying/packing", "builder/workdir", "clock"),
        *("containers/life/end", "containers/exec/verbs", "notify", "tar/writer"),
    ),
}


def test_the_numbers_of_strangers_are_read_in_one_room() -> None:
    """`engine.literals`, as Go reads them: int() and float() take what Go refuses, and break at 4,300 digits."""
    found = set()
    for path in files(".py", trees=("engine/daemon",)):
        for node in walked(path):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("int", "float"):
                found.add(str(path.relative_to(PROJECT / "engine" / "daemon").with_suffix("")))
    assert found == {name for names in NUMBERS.values() for name in names}
