"""The set of the daemon's volumes: making, finding and removing them, and which containers use each.

Runs in the daemon, on any thread, under one lock. A volume is a row in the database and a directory below
`<data root>/volumes`. A directory without a row is never touched, because the engine does not know who owns its
contents. This file mounts nothing on the host: what a volume's options mount is mounted in the containers that use it.
Of a volume that a plugin keeps there is only the row; the plugin is asked without the lock.

A removal renames the volume's directory into `.removed`, to a name that begins with the volume's time of creation. Then
it deletes the row, then the files. If the daemon dies in between, the next start puts the directory back if its row
still exists, and deletes it otherwise.
"""

import logging
import os
import time

from engine.annotating import Protocol
from engine.daemon import locks
from engine.daemon.store import volumes as table
from engine.daemon.store.database import Database
from engine.daemon.tar.trees import left_for_later, remove_path
from engine.daemon.volumes import options as driver_options
from engine.daemon.volumes.volume import ANONYMOUS, DRIVER, Volume
from engine.dataclass import replace
from engine.errors import Conflict, EngineError, Invalid, NotFound, SystemFailure
from engine.kernel import reasons, wholefile
from engine.late import TYPE_CHECKING, late
from engine.regex import regex
from engine.sandbox.mounts import words

if TYPE_CHECKING:  # loaded by the first volume that a plugin keeps, or may keep
    from engine.daemon.plugins.activation import Plugins
    from engine.daemon.volumes import outsourced
else:
    outsourced = late("engine.daemon.volumes.outsourced")

log = logging.getLogger(__name__)

_RULE = "[a-zA-Z0-9][a-zA-Z0-9_.-]"
_VALID = regex(f"{_RULE}+")
_REMOVED = ".removed"


class Bus(Protocol):
    """The event bus to which volumes are reported; `runtime.events.Events` is one."""

    def publish(self, kind: str, action: str, actor: str, attributes: dict[str, str]) -> None:
        """Send an event to all subscribers."""


class Volumes:
    """The volumes of a data root. events: the bus on which each making and removal of a volume is published.

    plugins: those among which drivers are looked for; None for none
    """

    def __init__(self, database: Database, data_root: str, events: Bus, plugins: "Plugins | None" = None) -> None:
        self._database = database
        self._plugins = plugins
        self._drivers: outsourced.Drivers | None = None
        self._events = events
        self._lock = locks.Reentrant("volumes")
        self._root = os.path.join(data_root, "volumes")
        with database.reading() as connection:
            rows = table.load_all(connection)
        self._volumes = {row[0]: Volume(*row, self._path(row[0]) if row[1] == DRIVER else "") for row in rows}
        self._users: dict[str, set[str]] = {}
        # Made now, since a removal on a full disk needs it and there would be no room for a new directory then.
        os.makedirs(os.path.join(self._root, _REMOVED), 0o700, exist_ok=True)
        self._sweep()

    def _path(self, name: str) -> str:
        return os.path.join(self._root, name, "_data")

    def _sweep(self) -> None:
        """Finish what an earlier daemon was removing when it died: put back what still has its row, delete the rest."""
        rows = {str(volume.created_ns): volume for volume in self._volumes.values()}
        for name in os.listdir(os.path.join(self._root, _REMOVED)):
            aside = os.path.join(self._root, _REMOVED, name)
            volume = rows.get(name.partition(".")[0])
            if volume is None or os.path.exists(os.path.dirname(volume.path)):
                self._delete(aside)
            else:
                self._put_back(volume, aside)

    def all(self) -> list[Volume]:
        """Every volume, sorted by name."""
        with self._lock:
            return sorted(self._volumes.values(), key=lambda volume: volume.name)

    def get(self, name: str) -> Volume:
        """The volume of this name. Raises NotFound."""
        with self._lock:
            volume = self._volumes.get(name)
        if volume is None:
            raise NotFound(f"get {name}: no such volume")
        return volume

    @property
    def drivers(self) -> "outsourced.Drivers | None":
        """The drivers that are plugins; None where there are no plugins."""
        if self._drivers is None and self._plugins is not None and self._plugins.possible():
            self._drivers = outsourced.Drivers(self._plugins)
        return self._drivers

    def find(self, name: str) -> Volume:
        """The volume of this name as it is now, wherever it is kept. Raises NotFound, SystemFailure."""
        with self._lock:
            volume = self._volumes.get(name)
        if self.drivers is not None and (volume is None or volume.remote):
            found = outsourced.find(self.drivers, name, volume)
            if found is None and volume is not None:
                self._forget(volume)
            volume = found
        if volume is None:
            raise NotFound(f"get {name}: no such volume")
        return volume

    def everywhere(self) -> tuple[list[Volume], list[str]]:
        """Every volume, sorted by name, those of all plugins too; and what plugins could not tell."""
        return outsourced.everywhere(self.drivers, self.all()) if self.drivers is not None else (self.all(), [])

    def users(self, name: str) -> list[str]:
        """The ids of the containers that use the volume, sorted."""
        with self._lock:
            return sorted(self._users.get(name, ()))

    def create(
        self,
        name: str = "",
        driver: str = "",
        options: dict[str, str] | None = None,
        labels: dict[str, str] | None = None,
        user: str = "",
    ) -> Volume:
        """The volume of this name, which is made if it does not exist; without a name, a new anonymous volume.

        user: id of a container that is to use it, or empty. A volume that is made for a container becomes durable with
            that container's own transaction.
        Raises Invalid, NotFound for the driver, Conflict where another driver has this name, SystemFailure when the
        disk or the driver fails.
        """
        if not name:
            name, labels = os.urandom(32).hex(), {**(labels or {}), ANONYMOUS: ""}
        with self._lock:
            volume = self._volumes.get(name)
        if driver not in ("", DRIVER) or (volume is not None and volume.remote):
            return self._create_remote(
                name, driver or (volume.driver if volume is not None else DRIVER), options, labels, user
            )
        with self._lock:
            volume = self._volumes.get(name)
            _check_driver(volume, name, DRIVER)
            if volume is None:
                volume = self._make(name, options, labels, durable=not user)
            if user:
                self._users.setdefault(name, set()).add(user)
            return volume

    def _create_remote(
        self, name: str, driver: str, options: dict[str, str] | None, labels: dict[str, str] | None, user: str
    ) -> Volume:
        try:
            if driver != DRIVER:  # a driver that does not exist is told before a name that is taken
                outsourced.check(self.drivers, driver)
            with self._lock:
                _check_driver(self._volumes.get(name), name, driver)
            made = outsourced.create(self.drivers, driver, name, options)
        except Conflict:
            raise
        except EngineError as error:
            raise type(error)(f"create {name}: {error}") from error
        with self._lock:
            volume = self._volumes.get(name)
            _check_driver(volume, name, driver)
            if volume is None:
                volume = Volume(name, driver, labels, options, time.time_ns(), "")
                with self._database.transaction(durable=not user) as connection:
                    table.insert(connection, name, driver, labels, options, volume.created_ns)
                self._volumes[name] = volume
                self._events.publish("volume", "create", name, {"driver": driver})
            if user:
                self._users.setdefault(name, set()).add(user)
        return replace(volume, path=made.path, scope=made.scope, created=made.created, status=made.status)

    def _make(self, name: str, options: dict[str, str] | None, labels: dict[str, str] | None, durable: bool) -> Volume:
        try:
            _check_name(name)
            driver_options.check(options)
        except Invalid as error:
            raise Invalid(f"create {name}: {error}") from error
        volume = Volume(name, DRIVER, labels, options, time.time_ns(), self._path(name))
        try:
            with self._database.transaction(durable=durable) as connection:
                table.insert(connection, name, DRIVER, labels, options, volume.created_ns)
                self.mend(volume)
        except OSError as error:
            root = os.path.dirname(volume.path)
            told = f"error while creating volume root path '{root}': mkdir {root}: {words(error)}"
            raise SystemFailure(f"create {name}: {told}") from error
        self._volumes[name] = volume
        self._events.publish("volume", "create", name, {"driver": DRIVER})
        return volume

    def mend(self, volume: Volume) -> None:
        """Make the volume's directories if they are missing: a loss of power may have undone them. Raises OSError."""
        if not volume.remote and not os.path.isdir(volume.path):
            # Containers see only the last directory (0755). The ones above keep the host's other users out (0700).
            os.makedirs(os.path.dirname(volume.path), 0o700, exist_ok=True)
            os.makedirs(volume.path, 0o755, exist_ok=True)

    def hold(self, name: str, user: str) -> None:
        """Record at the daemon's start that this container uses the volume, without a check that the volume exists."""
        with self._lock:
            self._users.setdefault(name, set()).add(user)

    def release(self, name: str, user: str) -> None:
        """Record that the container no longer uses the volume; the volume stays."""
        with self._lock:
            users = self._users.get(name, set())
            users.discard(user)
            if not users:
                self._users.pop(name, None)

    def remove(self, name: str, force: bool = False) -> None:
        """Remove a volume and what is in it. Raises NotFound (not with `force`), Conflict while a container uses it."""
        with self._lock:
            volume = self._volumes.get(name)
        if volume is None or volume.remote:
            self._remove_remote(name, force)
            return
        with self._lock:
            if force and name not in self._volumes:
                return
            volume = self.get(name)
            if users := self.users(name):
                raise Conflict(f"remove {name}: volume is in use - [{', '.join(users)}]")
            gone = self._set_aside(volume)
            try:
                with self._database.transaction(durable=True, frees=True) as connection:
                    table.delete(connection, name)
            except BaseException:
                if gone:
                    self._put_back(volume, gone)
                raise
            del self._volumes[name]
            self._events.publish("volume", "destroy", name, {"driver": volume.driver})
        # After the lock is released: there may be thousands of files, and other threads wait for the lock.
        if gone:
            self._delete(gone)

    def _remove_remote(self, name: str, force: bool) -> None:
        """Remove a volume that a plugin keeps, with `force` even where the plugin refuses; its row goes with it."""
        try:
            volume = self.find(name)
        except NotFound:
            if force:
                return
            raise
        if users := self.users(name):
            raise Conflict(f"remove {name}: volume is in use - [{', '.join(users)}]")
        try:
            outsourced.remove(self.drivers, volume)
        except EngineError as error:
            if not force:
                raise type(error)(f"remove {name}: {error}") from error
            log.warning("volume %s: it is forgotten, though its driver did not remove it: %s", name, error)
        self._forget(volume)
        self._events.publish("volume", "destroy", name, {"driver": volume.driver})

    def _forget(self, volume: Volume) -> None:
        """Delete the row of a volume that a plugin kept."""
        with self._lock:
            known = self._volumes.get(volume.name)
            if known is not None and known.driver == volume.driver:
                with self._database.transaction(durable=True, frees=True) as connection:
                    table.delete(connection, volume.name)
                del self._volumes[volume.name]

    def _set_aside(self, volume: Volume) -> str:
        """Rename the volume's directory into `.removed`; returns its new path, empty if there was no directory.

        A new volume of the same name is then empty. The rename is synced to the disk before the row is deleted:
        otherwise a loss of power could leave the files in their old place without a row, and the next volume of that
        name would get them. Raises SystemFailure.
        """
        aside = os.path.join(self._root, _REMOVED)
        gone = os.path.join(aside, f"{volume.created_ns}.{os.urandom(4).hex()}")
        try:
            os.rename(os.path.dirname(volume.path), gone)
            wholefile.sync_directory(aside)
        except FileNotFoundError:
            return ""  # the directory was gone already
        except OSError as error:
            raise SystemFailure(f"remove {volume.name}: {reasons.whole(error)}") from error
        return gone

    def _put_back(self, volume: Volume, aside: str) -> None:
        """Rename the directory back to the volume's path, because the volume is not removed after all."""
        try:
            os.rename(aside, os.path.dirname(volume.path))
        except OSError as error:  # the next start tries again
            log.error("volume %s: its files are in %s and cannot be put back: %s", volume.name, aside, error)

    def _delete(self, path: str) -> None:
        with left_for_later("files of a removed volume"):
            remove_path(path)

    def prune(self, volume: Volume) -> bool:
        """Remove a volume if no container uses it; False where one does by now, or the volume was removed already."""
        try:
            self.remove(volume.name)
        except (NotFound, Conflict):
            return False
        return True


def _check_driver(known: Volume | None, name: str, driver: str) -> None:
    if known is not None and known.driver != driver:
        raise Conflict(
            f"create {name}: driver '{known.driver}' already has volume '{name}': volume name must be unique"
        )


def _check_name(name: str) -> None:
    if len(name) == 1:
        raise Invalid("volume name is too short, names should be at least two alphanumeric characters")
    if not _VALID.fullmatch(name):
        raise Invalid(
            f'"{name}" includes invalid characters for a local volume name, only "{_RULE}" are allowed.'
            " If you intended to pass a host directory, use absolute path"
        )
