"""The tables of images, their names, blobs and layers: all of their SQL, and nothing else.

Runs in the daemon, on any thread, inside a transaction or reading of `Database`, whose connection each function takes
first. Never decides what an image is or when a layer may go; `images.store` does.

An image is what a name points at: the digest of an index or of a manifest. One that is `removed` is held only for the
layers that a container still stands on. A layer without `diff_id` is being unpacked; `ready` says it is on the disk.
"""

import sqlite3
from collections.abc import Iterable, Sequence

SCHEMA = (
    """CREATE TABLE IF NOT EXISTS layers (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        diff_id TEXT UNIQUE,
        size INTEGER NOT NULL DEFAULT 0,
        ready INTEGER NOT NULL DEFAULT 0)""",
    """CREATE TABLE IF NOT EXISTS images (
        id TEXT PRIMARY KEY,
        media_type TEXT NOT NULL,
        descriptor_size INTEGER NOT NULL,
        manifest TEXT NOT NULL,
        config TEXT NOT NULL,
        created TEXT NOT NULL,
        parent TEXT NOT NULL DEFAULT '',
        removed INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS image_layers (
        image TEXT NOT NULL REFERENCES images ON DELETE CASCADE,
        manifest TEXT NOT NULL,
        position INTEGER NOT NULL,
        layer INTEGER NOT NULL REFERENCES layers,
        PRIMARY KEY (image, manifest, position)) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS image_layers_by_layer ON image_layers (layer)",
    """CREATE TABLE IF NOT EXISTS image_blobs (
        image TEXT NOT NULL REFERENCES images ON DELETE CASCADE,
        digest TEXT NOT NULL,
        size INTEGER NOT NULL,
        PRIMARY KEY (image, digest)) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS image_blobs_by_digest ON image_blobs (digest)",
    """CREATE TABLE IF NOT EXISTS image_names (
        name TEXT PRIMARY KEY,
        image TEXT NOT NULL REFERENCES images ON DELETE CASCADE,
        tagged_ns INTEGER NOT NULL) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS image_names_by_image ON image_names (image)",
)


def new_layer(connection: sqlite3.Connection) -> int:
    """The number of a layer about to be unpacked; never one that was given before."""
    return connection.execute("INSERT INTO layers DEFAULT VALUES").lastrowid


def name_layer(connection: sqlite3.Connection, number: int, diff_id: str, size: int) -> None:
    """The layer is unpacked: what it holds, and how many bytes it takes."""
    connection.execute("UPDATE layers SET diff_id = ?, size = ? WHERE number = ?", (diff_id, size, number))


def mark_layers_ready(connection: sqlite3.Connection, numbers: Iterable[int]) -> None:
    """The layers are on the disk and stay over a power cut."""
    connection.executemany("UPDATE layers SET ready = 1 WHERE number = ?", ((number,) for number in numbers))


def layer_by_diff_id(connection: sqlite3.Connection, diff_id: str) -> sqlite3.Row | None:
    """number and size of the layer with these contents."""
    return connection.execute("SELECT number, size FROM layers WHERE diff_id = ?", (diff_id,)).fetchone()


def idle_layers(connection: sqlite3.Connection) -> list[int]:
    """Numbers of layers that no image holds."""
    return [
        row[0]
        for row in connection.execute(
            "SELECT number FROM layers WHERE NOT EXISTS (SELECT 1 FROM image_layers WHERE layer = number)"
        )
    ]


def layer_numbers(connection: sqlite3.Connection) -> set[int]:
    """Every layer's number."""
    return {row[0] for row in connection.execute("SELECT number FROM layers")}


def forget_layers(connection: sqlite3.Connection, numbers: Iterable[int]) -> None:
    """Delete the rows of layers that no image holds."""
    connection.executemany("DELETE FROM layers WHERE number = ?", ((number,) for number in numbers))


def add_image(
    connection: sqlite3.Connection,
    *,
    identity: str,
    media_type: str,
    descriptor_size: int,
    manifest: str,
    config: str,
    created: str,
    parent: str,
    layers: Sequence[int],
    blobs: Iterable[tuple[str, int]],
) -> None:
    """Add an image, or give one that is there another platform's manifest; the layers of the former one stay held."""
    connection.execute(
        """INSERT INTO images (id, media_type, descriptor_size, manifest, config, created, parent)
           VALUES (?, ?, ?, ?, ?, ?, ?)
           ON CONFLICT (id) DO UPDATE SET manifest = excluded.manifest, config = excluded.config,
               created = excluded.created, removed = 0""",
        (identity, media_type, descriptor_size, manifest, config, created, parent),
    )
    connection.executemany(
        "INSERT OR IGNORE INTO image_layers (image, manifest, position, layer) VALUES (?, ?, ?, ?)",
        ((identity, manifest, position, layer) for position, layer in enumerate(layers)),
    )
    connection.executemany(
        "INSERT OR IGNORE INTO image_blobs (image, digest, size) VALUES (?, ?, ?)",
        ((identity, digest, size) for digest, size in blobs),
    )


def image(connection: sqlite3.Connection, identity: str) -> sqlite3.Row | None:
    """The row of one image that is not removed."""
    return connection.execute("SELECT * FROM images WHERE id = ? AND NOT removed", (identity,)).fetchone()


def image_of_containers(connection: sqlite3.Connection, identity: str) -> sqlite3.Row | None:
    """The row of one image, also when it is removed and held only for containers."""
    return connection.execute("SELECT * FROM images WHERE id = ?", (identity,)).fetchone()


def images(connection: sqlite3.Connection) -> list[sqlite3.Row]:
    """The rows of every image that is not removed, newest first."""
    return connection.execute("SELECT * FROM images WHERE NOT removed ORDER BY created DESC, id").fetchall()


def images_by_prefix(connection: sqlite3.Connection, prefix: str) -> list[str]:
    """Ids, at most two, of the images whose id starts with `prefix` (`sha256:` and lower-case hex digits)."""
    return [
        row[0]
        for row in connection.execute(
            "SELECT id FROM images WHERE id >= ? AND id < ? AND NOT removed LIMIT 2", (prefix, prefix + "g")
        )
    ]


def removed_images(connection: sqlite3.Connection) -> list[str]:
    """Ids of images that are held only for containers."""
    return [row[0] for row in connection.execute("SELECT id FROM images WHERE removed")]


def hide_image(connection: sqlite3.Connection, identity: str) -> None:
    """Take the image from every list, and keep its layers for the containers that stand on them."""
    connection.execute("UPDATE images SET removed = 1 WHERE id = ?", (identity,))
    connection.execute("DELETE FROM image_names WHERE image = ?", (identity,))


def forget_image(connection: sqlite3.Connection, identity: str) -> None:
    """Delete the image, its names and its hold on layers and blobs."""
    connection.execute("DELETE FROM images WHERE id = ?", (identity,))


def image_layers(connection: sqlite3.Connection, identity: str, manifest: str) -> list[sqlite3.Row]:
    """number, diff_id and size of the layers of one manifest of the image, lowest first."""
    return connection.execute(
        """SELECT number, diff_id, size FROM image_layers JOIN layers ON layer = number
           WHERE image = ? AND manifest = ? ORDER BY position""",
        (identity, manifest),
    ).fetchall()


def shared_layers(connection: sqlite3.Connection) -> set[int]:
    """Numbers of the layers that more than one image holds."""
    return {
        row[0]
        for row in connection.execute("SELECT layer FROM image_layers GROUP BY layer HAVING COUNT(DISTINCT image) > 1")
    }


def image_blobs(connection: sqlite3.Connection, identity: str) -> list[tuple[str, int]]:
    """digest and size of the blobs that the image holds."""
    return [
        tuple(row) for row in connection.execute("SELECT digest, size FROM image_blobs WHERE image = ?", (identity,))
    ]


def held_blobs(connection: sqlite3.Connection) -> set[str]:
    """Digests of the blobs that any image holds."""
    return {row[0] for row in connection.execute("SELECT DISTINCT digest FROM image_blobs")}


def blob_is_held(connection: sqlite3.Connection, digest: str) -> bool:
    """True when an image holds the blob."""
    return connection.execute("SELECT 1 FROM image_blobs WHERE digest = ? LIMIT 1", (digest,)).fetchone() is not None


def set_name(connection: sqlite3.Connection, name: str, identity: str, tagged_ns: int) -> None:
    """Let `name` (as `Reference.canonical`) point at the image, whatever it pointed at before."""
    connection.execute(
        """INSERT INTO image_names (name, image, tagged_ns) VALUES (?, ?, ?)
           ON CONFLICT (name) DO UPDATE SET image = excluded.image, tagged_ns = excluded.tagged_ns""",
        (name, identity, tagged_ns),
    )


def drop_name(connection: sqlite3.Connection, name: str) -> None:
    """Take a name away; its image stays."""
    connection.execute("DELETE FROM image_names WHERE name = ?", (name,))


def image_by_name(connection: sqlite3.Connection, name: str) -> str | None:
    """The id that a name points at."""
    row = connection.execute("SELECT image FROM image_names WHERE name = ?", (name,)).fetchone()
    return row and row[0]


def image_names(connection: sqlite3.Connection, identity: str) -> list[tuple[str, int]]:
    """name and time of tagging in ns, of one image, sorted by name."""
    return [
        tuple(row)
        for row in connection.execute(
            "SELECT name, tagged_ns FROM image_names WHERE image = ? ORDER BY name", (identity,)
        )
    ]
