"""Keeps the code of rarely needed modules in the spawner's memory, so that its children never import from changed
files.

Run once by the spawner, inherited by all that it forks. A monitor lives for months. An upgrade meanwhile replaces or
removes the files that the monitor came from. A module imported after that does not fit, or its import ends the monitor,
and the next daemon then ends the monitor's container. So nothing may be imported from a file once the spawner has
settled. Modules that every monitor runs are imported before. Modules that few of them run (the resolver, the proxy, the
senders of lines, the reader for a client that attaches to a log of JSON lines) are kept here as packed code, which
takes a fraction of the memory that the imported modules would take. Modules of Python's own that only a sender
needs (ssl, json) are loaded from Python's files while its container is started: what is wrong with them then is a start
that fails, and ends no container.
"""

import _queue  # noqa: F401  (a file of Python's own, which the ring of a forwarder's lines needs)
import importlib.util
import marshal
import sys
import zlib
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

MODULES = (
    "engine.asking.dial",
    "engine.asking.exchange",
    "engine.asking.secure",
    "engine.birth.hooks",
    "engine.birth.joinviaruntime",
    "engine.birth.ociprogram",
    "engine.birth.viaruntime",
    "engine.kernel.idmaps",
    "engine.kernel.netlink.nftexpressions",
    "engine.kernel.netns",
    "engine.logs.attributes",
    "engine.logs.compress",
    "engine.logs.drivers.cached",
    "engine.logs.drivers.entries",
    "engine.logs.drivers.fluentsender",
    "engine.logs.drivers.gelfsender",
    "engine.logs.drivers.gojson",
    "engine.logs.drivers.journald",
    "engine.logs.drivers.local",
    "engine.logs.drivers.msgpack",
    "engine.logs.drivers.options",
    "engine.logs.drivers.pluginsender",
    "engine.logs.drivers.ring",
    "engine.logs.drivers.splunksender",
    "engine.logs.drivers.syslog",
    "engine.logs.jsonfiles",
    "engine.logs.jsonlines",
    "engine.plugins.call",
    "engine.plugins.discovery",
    "engine.sandbox.remapped",
    "engine.sandbox.resolvconf",
    "engine.asking.addressing",
    "engine.protocols.http",
    "engine.proxy.confine",
    "engine.proxy.orders",
    "engine.proxy.datagram",
    "engine.proxy.bounds",
    "engine.proxy.turns",
    "engine.proxy.main",
    "engine.proxy.record",
    "engine.proxy.reach",
    "engine.proxy.stream",
    "engine.resolver.forward",
    "engine.resolver.loop",
    "engine.resolver.main",
    "engine.resolver.nat",
    "engine.resolver.packets",
    "engine.resolver.redirect",
    "engine.resolver.served",
    "engine.resolver.servers",
    "engine.resolver.service",
    "engine.resolver.streams",
    "engine.resolver.zones",
    "engine.wire.leads",
)
"""Kept together with all modules that they import, except those that the spawner has imported already."""


class Kept:
    """A finder and loader for `sys.meta_path` (importlib's documentation, MetaPathFinder) that reads no file."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[str, bool, bytes]] = {}  # where from, whether it is code, and packed code or source

    def keep(self, name: str) -> None:
        """Keep a module whose package is imported: its code, or its source where the engine's one file has no code of
        it, since a start has no time to compile what is rarely needed. Raises ImportError for a module without a file.
        """
        spec = importlib.util.find_spec(name)
        loader = spec.loader if spec is not None else None
        if spec is None or spec.origin is None or loader is None or not hasattr(loader, "get_code"):
            raise ImportError(f"module {name} is not loaded from a file", name=name)
        source = loader.uncompiled(name) if hasattr(loader, "uncompiled") else None
        made = marshal.dumps(loader.get_code(name)) if source is None else source
        self._made[name] = spec.origin, source is None, zlib.compress(made, 1)

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        """The spec of a kept module; None for any other module."""
        if name not in self._made:
            return None
        origin = self._made[name][0]
        # A loader with exec_module needs no load_module, which is deprecated; the checker's stubs ask for it.
        return importlib.util.spec_from_file_location(name, origin, loader=self)  # type: ignore[arg-type]  # see above

    def create_module(self, _spec: ModuleSpec) -> None:
        """Returns None, by which importlib makes a module like any other."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the kept module's code in the module."""
        origin, is_code, packed = self._made[module.__name__]
        made = zlib.decompress(packed)
        exec(marshal.loads(made) if is_code else compile(made, origin, "exec", dont_inherit=True), vars(module))


def keep() -> None:
    """Keep all of `MODULES` that are not imported yet, and from now on import them from memory."""
    kept = Kept()
    for name in MODULES:
        if name not in sys.modules:
            kept.keep(name)
    sys.meta_path.insert(0, kept)
