"""The plugins that this daemon uses: each is activated at its first use, and says then what it implements.

Used by the daemon's request threads. The lock guards the table of activated plugins, and is not held while one is
called. Two threads may activate a plugin at once, which does no harm.
"""

import os
import time

from engine.daemon import locks
from engine.dataclass import dataclass
from engine.errors import EngineError, NotFound, SystemFailure
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded by the first request that needs a plugin
    from engine.plugins import call, discovery
    from engine.plugins.call import Object
    from engine.plugins.discovery import Address
else:
    call = late("engine.plugins.call")
    discovery = late("engine.plugins.discovery")

VOLUMES, AUTHORIZATION, LOGS, NETWORKS, IPAM = "VolumeDriver", "authz", "LogDriver", "NetworkDriver", "IpamDriver"
"""What a plugin may implement, of that which this engine asks plugins for."""
SECONDS = 60.0
"""How long a call may take that does not say otherwise."""
_ACTIVATION_SECONDS = 30.0
_SOUGHT_SECONDS = 5.0
_PATIENCE = 30.0  # for a plugin that is there and does not answer


@dataclass(frozen=True, slots=True)
class Plugin:
    """An activated plugin."""

    name: str
    address: "Address"
    implements: tuple[str, ...]

    def call(
        self,
        method: str,
        arguments: "Object | None" = None,
        seconds: float = SECONDS,
        patience: float | None = None,
    ) -> "Object":
        """What a method answers, see `call.call`."""
        return call.call(self.address, method, arguments, seconds, _PATIENCE if patience is None else patience)


class Plugins:
    """The plugins in some directories."""

    def __init__(self, directories: tuple[str, ...]) -> None:
        self._directories = directories
        self._lock = locks.Lock("plugins")
        self._activated: dict[str, Plugin] = {}
        self._gone: set[str] = set()

    def possible(self) -> bool:
        """Whether there is a directory in which plugins may be: most hosts have none."""
        return any(os.path.isdir(directory) for directory in self._directories)

    def get(self, name: str, kind: str, patience: float = _PATIENCE) -> Plugin:
        """The plugin of this name, which implements `kind`.

        patience: how long one is waited for that is there and does not answer. One that is not there is looked for
            again for some seconds at most, unless no plugin can be there at all, or it was here once and has been
            looked for in vain since: a daemon's every request may ask for it.
        Raises NotFound in dockerd's words, SystemFailure where it cannot be activated or implements something else.
        """
        address = self._found(name, min(patience, _SOUGHT_SECONDS))
        with self._lock:
            plugin = self._activated.get(name)
        if plugin is None or plugin.address != address:
            plugin = _activate(name, address, patience)
            with self._lock:
                self._activated[name] = plugin
        if kind not in plugin.implements:
            raise SystemFailure(
                "legacy plugin: Plugin does not implement the requested driver:"
                f' plugin="{name}", requested implementation="{kind}"'
            )
        return plugin

    def _found(self, name: str, seconds: float) -> "Address":
        end, wait = time.monotonic() + (0.0 if name in self._gone else seconds), 0.1
        while True:
            try:
                address = discovery.find(self._directories, name)
            except NotFound:
                if time.monotonic() + wait > end or not self.possible():
                    with self._lock:
                        if name in self._activated:
                            self._gone.add(name)
                    raise
            else:
                with self._lock:
                    self._gone.discard(name)
                return address
            time.sleep(wait)
            wait *= 2

    def all(self, kind: str) -> list[Plugin]:
        """Those that implement `kind`, of all that are there and can be activated now."""
        found = []
        for name in discovery.names(self._directories):
            try:
                found.append(self.get(name, kind, patience=0))
            except EngineError:  # it implements something else, or is not running
                continue
        return found

    def used(self, kind: str) -> list[str]:
        """The names of those that implement `kind` and were used already."""
        with self._lock:
            return sorted(name for name, plugin in self._activated.items() if kind in plugin.implements)


def _activate(name: str, address: "Address", patience: float) -> Plugin:
    try:
        seconds = min(_ACTIVATION_SECONDS, patience or _ACTIVATION_SECONDS)
        told = call.call(address, "Plugin.Activate", None, seconds, patience)
    except SystemFailure as error:
        raise SystemFailure(f"legacy plugin: {error}") from error
    implements = told.get("Implements")
    listed = implements if isinstance(implements, list) else []
    return Plugin(name, address, tuple(each for each in listed if isinstance(each, str)))
