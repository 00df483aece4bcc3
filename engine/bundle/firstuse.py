"""Orders the engine's modules by when a process first needs them: what a start needs is packed side by side.

Pure: reads imports from sources, and runs none of them. The first ones in this order get code besides their source.
"""

import ast
from collections.abc import Iterable, Iterator

from engine.bundle.materials import Files

FIRST = ("engine.origin", "engine.__main__", "engine.kernel.sealing", "engine.kernel.syscalls", "engine.postponed")
CLIENT = ("engine.client.verbs", "engine.client.container.containerlist")
DAEMON = (
    "engine.settings.every",
    "engine.rootless.arrival",
    "engine.boot",
    "engine.spawner.main",
    "engine.spawner.modules",
)
"""In the order in which a daemon that starts imports them; `engine.monitor.parts` chooses by name."""
MONITOR = ("engine.monitor.nativeprocess", "engine.monitor.nativepump", "engine.logs.nativereader")
AFTER = ("engine.daemon.main", "engine.client.container.run")


def ordered(files: Files) -> list[str]:
    """The paths of all modules: first what the roots import, then what that imports late, then the others."""
    trees = {path: ast.parse(text) for path, text in files.items() if path.endswith(".py")}
    paths = {_name(path): path for path in trees}
    found: dict[str, None] = {}

    def take(names: Iterable[str]) -> None:
        for name in names:
            if name in paths and name not in found:
                take(_packages(name))
                found[name] = None
                take(_imported(trees[paths[name]], paths))

    take(FIRST)
    # Packages have next to no code, and any import may need one: without code of its own it costs a block of sources.
    take(name for name, path in sorted(paths.items()) if path.endswith("/__init__.py"))
    take((*CLIENT, *DAEMON, *MONITOR, *AFTER))
    reached: set[str] = set()
    while unseen := [name for name in found if name not in reached]:
        reached.update(unseen)
        for name in unseen:
            take(_late(trees[paths[name]]))
    take(sorted(paths))
    return [paths[name] for name in found]


def _name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _packages(name: str) -> Iterator[str]:
    parts = name.split(".")[:-1]
    for number in range(1, len(parts) + 1):
        yield ".".join(parts[:number])


def _imported(tree: ast.Module, known: Iterable[str]) -> Iterator[str]:
    """What the module's body imports at once: the branch for type checkers is not run."""
    waiting: list[ast.stmt] = list(reversed(tree.body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If):
            checking = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
            waiting += reversed(node.orelse if checking else [*node.body, *node.orelse])
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (name for each in node.names if (name := f"{node.module}.{each.name}") in known)


def _late(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="late"), args=[ast.Constant(value=str() as name)]):
                yield name
