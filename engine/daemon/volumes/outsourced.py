"""Volumes that a plugin keeps: each call of the plugin protocol's VolumeDriver, and the values that come back.

Runs in the daemon's request threads, which wait for the plugin for minutes at most; no lock may be held meanwhile.
docs.docker.com/engine/extend/plugins_volume says what the methods do.
"""

import re

from engine.daemon.plugins.activation import VOLUMES, Plugin, Plugins
from engine.daemon.volumes.volume import DRIVER, Volume
from engine.dataclass import dataclass, replace
from engine.errors import EngineError, NotFound, SystemFailure
from engine.plugins.call import Object

_LONG_SECONDS, _SHORT_SECONDS = 120.0, 60.0
_SCOPES = ("local", "global")
_LONGEST_PATH = 4096
_MOST_LISTED = 100_000
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)
_NEVER = "0001-01-01"


@dataclass(frozen=True, slots=True)
class Seen:
    """A volume as its plugin tells of it. path: where it is mounted, empty for nowhere

    created: RFC 3339, empty where the plugin does not say; status: whatever the plugin says
    """

    name: str
    path: str
    created: str
    status: Object | None


class Drivers:
    """The volume drivers that are plugins."""

    def __init__(self, plugins: Plugins) -> None:
        self._plugins = plugins
        self._scopes: dict[str, str] = {}

    def get(self, driver: str) -> Plugin:
        """The driver's plugin. Raises NotFound and SystemFailure in dockerd's words."""
        try:
            return self._plugins.get(driver, VOLUMES)
        except NotFound as error:
            raise NotFound(f"error looking up volume plugin {driver}: {error}") from error
        except SystemFailure as error:
            raise SystemFailure(f"error looking up volume plugin {driver}: {error}") from error

    def names(self) -> list[str]:
        """The drivers that were used already."""
        return self._plugins.used(VOLUMES)

    def scope(self, driver: str) -> str:
        """`local` or `global`, as the driver says; local for one that does not."""
        if driver not in self._scopes:
            try:
                told = self.get(driver).call("VolumeDriver.Capabilities", {}, _SHORT_SECONDS).get("Capabilities")
            except EngineError:  # a driver need not have this method
                return _SCOPES[0]
            scope = told.get("Scope") if isinstance(told, dict) else None
            known = scope.lower() if isinstance(scope, str) else ""
            self._scopes[driver] = known if known in _SCOPES else _SCOPES[0]
        return self._scopes[driver]

    def create(self, driver: str, name: str, options: dict[str, str] | None) -> Seen:
        """Have the driver make a volume, unless it has it already. Raises NotFound for the driver, SystemFailure."""
        plugin = self.get(driver)
        self.scope(driver)
        found = _looked_up(plugin, name)
        if found is not None:
            return found
        plugin.call("VolumeDriver.Create", {"Name": name, "Opts": options}, _LONG_SECONDS)
        return _looked_up(plugin, name) or Seen(name, "", "", None)

    def seen(self, driver: str, name: str) -> Seen | None:
        """A volume as its driver tells of it; None where it has none of this name. Raises NotFound, SystemFailure."""
        return _looked_up(self.get(driver), name)

    def anywhere(self, name: str) -> tuple[str, Seen] | None:
        """The first driver that has a volume of this name, and the volume."""
        for plugin in self._plugins.all(VOLUMES):
            found = _looked_up(plugin, name)
            if found is not None:
                return plugin.name, found
        return None

    def listed(self) -> tuple[list[tuple[str, Seen]], list[str], set[str]]:
        """All volumes of all drivers, each with its driver; what drivers could not tell; the drivers that could."""
        found: list[tuple[str, Seen]] = []
        failed: list[str] = []
        answered = set()
        for plugin in self._plugins.all(VOLUMES):
            try:
                told = plugin.call("VolumeDriver.List", {}, _SHORT_SECONDS).get("Volumes")
            except EngineError as error:
                failed.append(f"list {plugin.name}: {error}")
                continue
            answered.add(plugin.name)
            volumes = [_seen(each) for each in (told if isinstance(told, list) else [])[:_MOST_LISTED]]
            found += [(plugin.name, volume) for volume in volumes if volume is not None]
        return found, failed, answered

    def remove(self, driver: str, name: str) -> None:
        """Have the driver remove a volume. Raises NotFound for the driver, SystemFailure."""
        self.get(driver).call("VolumeDriver.Remove", {"Name": name}, _SHORT_SECONDS)

    def mount(self, driver: str, name: str, identity: str) -> str:
        """Have the driver mount a volume; the directory of the host where it is then.

        identity: of this mount, by which the driver counts. Raises NotFound for the driver, SystemFailure.
        """
        told = self.get(driver).call("VolumeDriver.Mount", {"Name": name, "ID": identity}, _LONG_SECONDS)
        path = told.get("Mountpoint")
        if not isinstance(path, str) or not _is_path(path):
            raise SystemFailure(f"the volume driver {driver} has told no absolute path for the volume {name}")
        return path

    def unmount(self, driver: str, name: str, identity: str) -> None:
        """Tell the driver that a mount is not needed any more. Raises NotFound for the driver, SystemFailure."""
        self.get(driver).call("VolumeDriver.Unmount", {"Name": name, "ID": identity}, _SHORT_SECONDS)


def check(drivers: Drivers | None, driver: str) -> Drivers:
    """The drivers. Raises NotFound where this one is not among them, SystemFailure where it cannot be used."""
    if drivers is None:
        raise NotFound(f'error looking up volume plugin {driver}: plugin "{driver}" not found')
    drivers.get(driver)
    return drivers


def create(drivers: Drivers | None, driver: str, name: str, options: dict[str, str] | None) -> Volume:
    """A volume that the driver has made, or had already. Raises NotFound for the driver, SystemFailure."""
    drivers = check(drivers, driver)
    seen = drivers.create(driver, name, options)
    return _shown(Volume(name, driver, None, options, 0, ""), seen, drivers.scope(driver))


def find(drivers: Drivers | None, name: str, known: Volume | None) -> Volume | None:
    """A volume as its driver tells of it now; None where it has none.

    known: its row; None to ask all drivers. Raises NotFound for the driver, SystemFailure.
    """
    if drivers is None:
        return known
    if known is None:
        found = drivers.anywhere(name)
        if found is None:
            return None
        driver, seen = found
        return _shown(Volume(name, driver, None, None, 0, ""), seen, drivers.scope(driver))
    told = drivers.seen(known.driver, name)
    return _shown(known, told, drivers.scope(known.driver)) if told is not None else None


def everywhere(drivers: Drivers | None, rows: list[Volume]) -> tuple[list[Volume], list[str]]:
    """These volumes and those that only drivers know, sorted by name; and what drivers could not tell.

    A volume that its driver does not list any more is left out, and one whose name is another driver's here. Those of
    a driver that cannot be asked are shown as they are known.
    """
    if drivers is None:
        return rows, []
    told, failed, answered = drivers.listed()
    known = {volume.name: volume for volume in rows}
    found = {volume.name: volume for volume in rows if volume.driver not in answered}
    for driver, seen in told:
        volume = known.get(seen.name, Volume(seen.name, driver, None, None, 0, ""))
        if volume.driver == driver:
            found[seen.name] = _shown(volume, seen, drivers.scope(driver))
    return [found[name] for name in sorted(found)], failed


def remove(drivers: Drivers | None, volume: Volume) -> None:
    """Have the volume's driver remove it. Raises NotFound for the driver, SystemFailure."""
    if drivers is not None and volume.driver != DRIVER:
        drivers.remove(volume.driver, volume.name)


def _shown(volume: Volume, seen: Seen, scope: str) -> Volume:
    return replace(volume, path=seen.path, scope=scope, created=seen.created, status=seen.status)


def _looked_up(plugin: Plugin, name: str) -> Seen | None:
    try:
        told = plugin.call("VolumeDriver.Get", {"Name": name}, _SHORT_SECONDS)
    except EngineError as error:
        if type(error) is SystemFailure:  # the plugin itself says that it has none
            return None
        raise
    found = _seen(told.get("Volume"))
    return found if found is not None and found.name == name else None


def _seen(value: object) -> Seen | None:
    if not isinstance(value, dict) or not isinstance(value.get("Name"), str) or not value["Name"]:
        return None
    path, created, status = value.get("Mountpoint"), value.get("CreatedAt"), value.get("Status")
    moment = _MOMENT.fullmatch(created) if isinstance(created, str) and not created.startswith(_NEVER) else None
    return Seen(
        value["Name"],
        path if isinstance(path, str) and _is_path(path) else "",
        moment[1] + moment[2] if moment else "",
        status if isinstance(status, dict) else None,
    )


def _is_path(text: str) -> bool:
    return text.startswith("/") and "\0" not in text and len(text) < _LONGEST_PATH
