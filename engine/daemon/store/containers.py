"""The database tables of containers: settings, states, health, SELinux labels, and their images' descriptors.

All functions take an open connection of `store.database` and run in the thread that holds it. The settings are what the
client asked for; they are written once. The state is written in place at each change. Creating and removing a container
need a durable transaction, because a client was told of them. A state does not: a container that runs ends with a loss
of power anyway.

A daemon that starts leaves the settings of the containers as the texts that they are: to decode those of a thousand
takes 25 milliseconds, and few of them may be asked for before it sleeps again.
"""

import json
import sqlite3
import threading
from operator import attrgetter

from engine.annotating import Any
from engine.daemon.containers.record import SETTINGS, Container, Health, Probe, State
from engine.dataclass import asdict

SCHEMA = (
    """
    CREATE TABLE IF NOT EXISTS containers (
        id TEXT PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        created_ns INTEGER NOT NULL,
        image TEXT NOT NULL,
        image_id TEXT NOT NULL,
        settings TEXT NOT NULL
    ) WITHOUT ROWID
    """,
    # A table of its own, so that a new state does not write the pages of the settings again.
    """
    CREATE TABLE IF NOT EXISTS container_states (
        id TEXT PRIMARY KEY,
        status TEXT NOT NULL,
        pid INTEGER NOT NULL,
        pid_start INTEGER NOT NULL,
        exit_code INTEGER NOT NULL,
        error TEXT NOT NULL,
        oom_killed INTEGER NOT NULL,
        started_ns INTEGER NOT NULL,
        finished_ns INTEGER NOT NULL,
        restart_count INTEGER NOT NULL,
        stopped_by_hand INTEGER NOT NULL DEFAULT 0
    ) WITHOUT ROWID
    """,
    # A table of its own: few containers have a health check, and those that have none pay nothing for it.
    "CREATE TABLE IF NOT EXISTS container_health (id TEXT PRIMARY KEY, health TEXT NOT NULL) WITHOUT ROWID",
    # A table of its own: an engine that knows no labels reads the others.
    """
    CREATE TABLE IF NOT EXISTS container_labels (
        id TEXT PRIMARY KEY,
        process_label TEXT NOT NULL,
        file_label TEXT NOT NULL
    ) WITHOUT ROWID
    """,
    # The API shows the descriptor of a container's image even when the image is gone. Many containers share one row.
    """
    CREATE TABLE IF NOT EXISTS container_images (
        image_id TEXT NOT NULL,
        manifest TEXT NOT NULL,
        descriptor TEXT NOT NULL,
        PRIMARY KEY (image_id, manifest)
    ) WITHOUT ROWID
    """,
)

# The version of a database file → the statements that bring it to the next version.
MIGRATIONS: dict[int, tuple[str, ...]] = {
    1: ("ALTER TABLE container_states ADD COLUMN stopped_by_hand INTEGER NOT NULL DEFAULT 0",),
    # A container of version 2 has no manifest recorded; its image had one platform.
    2: (
        "ALTER TABLE container_images RENAME TO container_images_before",
        SCHEMA[4],
        """INSERT INTO container_images (image_id, manifest, descriptor)
           SELECT image_id, '', descriptor FROM container_images_before""",
        "DROP TABLE container_images_before",
    ),
}

_STATE = (
    "status",
    "pid",
    "pid_start",
    "exit_code",
    "error",
    "oom_killed",
    "started_ns",
    "finished_ns",
    "restart_count",
    "stopped_by_hand",
)
_IDENTITY = ("id", "name", "created_ns", "image", "image_id")

_INSERT = f"INSERT INTO containers ({', '.join(_IDENTITY)}, settings) VALUES ({', '.join('?' * len(_IDENTITY))}, ?)"
_SAVE_STATE = f"REPLACE INTO container_states (id, {', '.join(_STATE)}) VALUES (?, {', '.join('?' * len(_STATE))})"
_SELECT = f"SELECT {', '.join(_IDENTITY)}, settings FROM containers"
_SELECT_STATES = f"SELECT id, {', '.join(_STATE)} FROM container_states"
_BATCH = 50  # containers whose settings are decoded in one go
_ABSENT: dict[str, Any] = {"mounts": (), "manifest": ""}  # what an engine without them did not write
_NOT_YET: dict[str, Any] = dict.fromkeys(SETTINGS)
_SAVE_HEALTH = "REPLACE INTO container_health (id, health) VALUES (?, ?)"
_INSERT_LABELS = "INSERT INTO container_labels (id, process_label, file_label) VALUES (?, ?, ?)"
_SELECT_LABELS = "SELECT id, process_label, file_label FROM container_labels"
_INSERT_DESCRIPTOR = "INSERT OR IGNORE INTO container_images (image_id, manifest, descriptor) VALUES (?, ?, ?)"


def insert(connection: sqlite3.Connection, container: Container, descriptor: dict[str, Any] | None) -> None:
    """Write a new container, and the descriptor of its image's manifest when it has an image."""
    identity = [getattr(container, column) for column in _IDENTITY]
    connection.execute(_INSERT, (*identity, _settings(container)))
    save_state(connection, container)
    if container.file_label:
        connection.execute(_INSERT_LABELS, (container.id, container.process_label, container.file_label))
    if descriptor is not None:
        data = json.dumps(descriptor, separators=(",", ":"))
        connection.execute(_INSERT_DESCRIPTOR, (container.image_id, container.manifest, data))


def save_state(connection: sqlite3.Connection, container: Container) -> None:
    """Write the present state of a container.

    The caller holds `container.changed`, or no other thread has the container yet.
    """
    state = container.state
    status = "running" if state.status == "paused" and container.passing else state.status
    connection.execute(_SAVE_STATE, (container.id, status, *(getattr(state, column) for column in _STATE[1:])))
    health = state.health
    if health is not None:
        connection.execute(_SAVE_HEALTH, (container.id, json.dumps(asdict(health), separators=(",", ":"))))


def save_settings(connection: sqlite3.Connection, container: Container) -> None:
    """Write the settings of a container again, after a change of them; the caller holds `container.changed`."""
    connection.execute("UPDATE containers SET settings = ? WHERE id = ?", (_settings(container), container.id))


def rename(connection: sqlite3.Connection, container: Container, name: str) -> None:
    """Write another name for a container. Raises sqlite3.IntegrityError when the name is taken."""
    connection.execute("UPDATE containers SET name = ? WHERE id = ?", (name, container.id))


def delete(connection: sqlite3.Connection, container: Container) -> None:
    """Delete a container's rows, and with the last container of an image that image's descriptors too."""
    connection.execute("DELETE FROM containers WHERE id = ?", (container.id,))
    connection.execute("DELETE FROM container_states WHERE id = ?", (container.id,))
    connection.execute("DELETE FROM container_health WHERE id = ?", (container.id,))
    connection.execute("DELETE FROM container_labels WHERE id = ?", (container.id,))
    if not connection.execute("SELECT 1 FROM containers WHERE image_id = ? LIMIT 1", (container.image_id,)).fetchone():
        connection.execute("DELETE FROM container_images WHERE image_id = ?", (container.image_id,))


def load_all(connection: sqlite3.Connection) -> list[Container]:
    """Every container, oldest first, in the state that was saved last."""
    # Whole tables, one after the other: a join would look for each row of the second one.
    health = dict(tuple(row) for row in connection.execute("SELECT id, health FROM container_health"))
    labels = {one: rest for one, *rest in connection.execute(_SELECT_LABELS)}
    states = {one: values for one, *values in connection.execute(_SELECT_STATES)}
    found: list[Container] = []
    unread = _Unread()
    for *identity, settings in connection.execute(_SELECT):
        one = identity[0]
        if one not in states:
            continue  # both rows are written in one transaction; a container is what has both
        if len(unread) == _BATCH:
            unread = _Unread()
        found.append(_container(identity, _state(states[one], health.get(one))))
        found[-1].process_label, found[-1].file_label = labels.get(one, ("", ""))
        unread.take(found[-1], settings)
    found.sort(key=attrgetter("created_ns"))  # SQLite would move whole rows for it
    return found


def load_descriptors(connection: sqlite3.Connection) -> dict[tuple[str, str], dict[str, Any]]:
    """(image id, manifest) → descriptor of that manifest, for the images that containers were made from."""
    rows = connection.execute("SELECT image_id, manifest, descriptor FROM container_images")
    return {(image_id, manifest): json.loads(descriptor) for image_id, manifest, descriptor in rows}


def _settings(container: Container) -> str:
    return json.dumps({key: getattr(container, key) for key in SETTINGS}, separators=(",", ":"))


def _container(identity: list[Any], state: State) -> Container:
    return Container(**dict(zip(_IDENTITY, identity, strict=True)), **_NOT_YET, state=state)


class _Unread:
    """The settings of some containers, as the database has them."""

    __slots__ = ("_lock", "_rows")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: list[tuple[Container, str]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, container: Container, settings: str) -> None:
        """Have one more container, which has no settings from now on."""
        self._rows.append((container, settings))
        for name in SETTINGS:
            delattr(container, name)
        container.unread = self

    def read(self) -> None:
        """Give all these containers their settings; for a second thread, once they have them."""
        with self._lock:
            if not self._rows:
                return
            # As one text: the decoder makes each key once a text, and a container has a hundred keys.
            decoded = json.loads(f"[{','.join([text for _, text in self._rows])}]")
            for (container, _), settings in zip(self._rows, decoded, strict=True):
                values = {**_ABSENT, **settings}
                values["layers"], values["mounts"] = tuple(values["layers"]), tuple(values["mounts"])
                for name in SETTINGS:  # each once: another thread may have one already, and change it
                    setattr(container, name, values[name])
                container.unread = None
            self._rows = []  # only now: after a failure, such as one of memory, the next one who asks tries again


def _state(values: list[Any], health: str | None) -> State:
    state = State(**dict(zip(_STATE, values, strict=True)))
    state.oom_killed, state.stopped_by_hand = bool(state.oom_killed), bool(state.stopped_by_hand)
    state.health = _health(health) if health else None
    return state


def _health(text: str) -> Health:
    values = json.loads(text)
    return Health(values["status"], values["failing_streak"], tuple(Probe(**run) for run in values["log"]))
