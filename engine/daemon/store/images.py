"""The database tables of images, with their names, platforms, blobs and layers, and all of their SQL.

Runs in the daemon, on any thread, inside a transaction or reading of `Database`; each function takes its connection
first. This file never decides what an image is or when a layer may be deleted: `images.catalogue` does.

The id of an image is the digest of the index or of the manifest that its names point at. An image that is an index may
have any number of its platforms here, each with its manifest, layers and blobs. `removed` says for whom a platform is
kept that no list shows: FOR_CONTAINERS, for its layers, which a container still uses, or FOR_BUILDS. An image is shown
as long as one of its platforms is. A layer without `diff_id` is being unpacked; `ready` says that it is on the disk.
"""

import sqlite3
from collections.abc import Iterable, Sequence

from engine.daemon.store import blobsources, buildresults

SHOWN, FOR_CONTAINERS, FOR_BUILDS = range(3)
"""For whom a platform of an image is kept."""
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
        parent TEXT NOT NULL DEFAULT '',
        removed INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS image_platforms (
        image TEXT NOT NULL REFERENCES images ON DELETE CASCADE,
        manifest TEXT NOT NULL,
        config TEXT NOT NULL,
        created TEXT NOT NULL,
        removed INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (image, manifest)) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS image_layers (
        image TEXT NOT NULL REFERENCES images ON DELETE CASCADE,
        manifest TEXT NOT NULL,
        position INTEGER NOT NULL,
        layer INTEGER NOT NULL REFERENCES layers,
        PRIMARY KEY (image, manifest, position)) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS image_layers_by_layer ON image_layers (layer)",
    """CREATE TABLE IF NOT EXISTS image_blobs (
        image TEXT NOT NULL REFERENCES images ON DELETE CASCADE,
        manifest TEXT NOT NULL,
        digest TEXT NOT NULL,
        size INTEGER NOT NULL,
        PRIMARY KEY (image, manifest, digest)) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS image_blobs_by_digest ON image_blobs (digest)",
    """CREATE TABLE IF NOT EXISTS image_names (
        name TEXT PRIMARY KEY,
        image TEXT NOT NULL REFERENCES images ON DELETE CASCADE,
        tagged_ns INTEGER NOT NULL) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS image_names_by_image ON image_names (image)",
    *blobsources.SCHEMA,
    *buildresults.SCHEMA,
)

# The version of a database file → the statements that bring it to the next version. Until version 2 an image had one
# platform at a time. The layers of its earlier platforms stayed for their containers; this migration makes them layers
# of removed platforms.
MIGRATIONS: dict[int, tuple[str, ...]] = {
    2: (
        SCHEMA[2],
        """INSERT INTO image_platforms (image, manifest, config, created, removed)
           SELECT id, manifest, config, created, removed FROM images""",
        """INSERT OR IGNORE INTO image_platforms (image, manifest, config, created, removed)
           SELECT DISTINCT image, manifest, '{}', '', 1 FROM image_layers""",
        "ALTER TABLE image_blobs RENAME TO image_blobs_before",
        "DROP INDEX IF EXISTS image_blobs_by_digest",
        SCHEMA[5],
        """INSERT INTO image_blobs (image, manifest, digest, size)
           SELECT image, manifest, digest, size FROM image_blobs_before JOIN images ON id = image""",
        "DROP TABLE image_blobs_before",
        "ALTER TABLE images DROP COLUMN manifest",
        "ALTER TABLE images DROP COLUMN config",
        "ALTER TABLE images DROP COLUMN created",
    ),
}


def new_layer(connection: sqlite3.Connection) -> int:
    """Add the row of a layer that is about to be unpacked; returns its number, which was never used before."""
    number = connection.execute("INSERT INTO layers DEFAULT VALUES").lastrowid
    assert number is not None  # it is None only where nothing was inserted
    return number


def name_layer(connection: sqlite3.Connection, number: int, diff_id: str, size: int) -> None:
    """Record that a layer is unpacked: the digest of its contents and how many bytes it takes on the disk."""
    connection.execute("UPDATE layers SET diff_id = ?, size = ? WHERE number = ?", (diff_id, size, number))


def mark_layers_ready(connection: sqlite3.Connection, numbers: Iterable[int]) -> None:
    """Record that the layers are synced to the disk and survive a loss of power."""
    connection.executemany("UPDATE layers SET ready = 1 WHERE number = ?", ((number,) for number in numbers))


def layer_by_diff_id(connection: sqlite3.Connection, diff_id: str) -> sqlite3.Row | None:
    """number and size of the layer with these contents, None when there is no such layer."""
    query = "SELECT number, size FROM layers WHERE diff_id = ?"
    row: sqlite3.Row | None = connection.execute(query, (diff_id,)).fetchone()
    return row


def layer_places(connection: sqlite3.Connection, diff_id: str, digest: str = "") -> list[tuple[str, int]]:
    """Each manifest that has the layer with these contents, and the layer's place in it, from the lowest.

    digest: only of manifests that name this blob
    """
    rows = connection.execute(
        """SELECT DISTINCT manifest, position FROM image_layers JOIN layers ON layer = number
           WHERE diff_id = ? AND (? = '' OR manifest IN (SELECT manifest FROM image_blobs WHERE digest = ?))
           ORDER BY manifest, position""",
        (diff_id, digest, digest),
    )
    return [tuple(row) for row in rows]


def idle_layers(connection: sqlite3.Connection) -> list[int]:
    """Numbers of the layers that belong to no image, and to no result that the build cache holds."""
    held = buildresults.held_layers(connection)
    rows = connection.execute(
        "SELECT number FROM layers WHERE NOT EXISTS (SELECT 1 FROM image_layers WHERE layer = number)"
    )
    return [row[0] for row in rows if row[0] not in held]


def layer_numbers(connection: sqlite3.Connection) -> set[int]:
    """The numbers of all layers, those that are being unpacked too."""
    return {row[0] for row in connection.execute("SELECT number FROM layers")}


def forget_layers(connection: sqlite3.Connection, numbers: Iterable[int]) -> None:
    """Delete the rows of these layers, which must be idle, and the results of builds that have them."""
    numbers = list(numbers)
    buildresults.drop_with_layers(connection, numbers)
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
    kept: int = SHOWN,
) -> None:
    """Add an image with one platform, or add one more platform to an image that exists. kept: for whom, at least"""
    connection.execute(
        """INSERT INTO images (id, media_type, descriptor_size, parent, removed) VALUES (?, ?, ?, ?, ?)
           ON CONFLICT (id) DO UPDATE SET removed = MIN(removed, excluded.removed)""",
        (identity, media_type, descriptor_size, parent, kept),
    )
    connection.execute(
        """INSERT INTO image_platforms (image, manifest, config, created, removed) VALUES (?, ?, ?, ?, ?)
           ON CONFLICT (image, manifest) DO UPDATE
               SET config = excluded.config, created = excluded.created, removed = MIN(removed, excluded.removed)""",
        (identity, manifest, config, created, kept),
    )
    connection.executemany(
        "INSERT OR IGNORE INTO image_layers (image, manifest, position, layer) VALUES (?, ?, ?, ?)",
        ((identity, manifest, position, layer) for position, layer in enumerate(layers)),
    )
    connection.executemany(
        "INSERT OR IGNORE INTO image_blobs (image, manifest, digest, size) VALUES (?, ?, ?, ?)",
        ((identity, manifest, digest, size) for digest, size in blobs),
    )


def image(connection: sqlite3.Connection, identity: str) -> sqlite3.Row | None:
    """The row of one image; None when it does not exist or is removed."""
    query = "SELECT * FROM images WHERE id = ? AND NOT removed"
    row: sqlite3.Row | None = connection.execute(query, (identity,)).fetchone()
    return row


def any_image(connection: sqlite3.Connection, identity: str) -> sqlite3.Row | None:
    """The row of one image, for whomever it is kept; None when there is no row."""
    row: sqlite3.Row | None = connection.execute("SELECT * FROM images WHERE id = ?", (identity,)).fetchone()
    return row


def images(connection: sqlite3.Connection) -> list[sqlite3.Row]:
    """The rows of every image that is not removed."""
    return connection.execute("SELECT * FROM images WHERE NOT removed ORDER BY id").fetchall()


def count_images(connection: sqlite3.Connection) -> int:
    """How many images are not removed."""
    count: int = connection.execute("SELECT COUNT(*) FROM images WHERE NOT removed").fetchone()[0]
    return count


def images_by_prefix(connection: sqlite3.Connection, prefix: str) -> list[str]:
    """Ids, at most two, of the images whose id starts with `prefix` (`sha256:` and lower-case hex digits)."""
    return [
        row[0]
        for row in connection.execute(
            "SELECT id FROM images WHERE id >= ? AND id < ? AND NOT removed LIMIT 2", (prefix, prefix + "g")
        )
    ]


def has_children(connection: sqlite3.Connection, identity: str) -> bool:
    """True when an image that is not removed was made on top of this one."""
    row = connection.execute("SELECT 1 FROM images WHERE parent = ? AND NOT removed LIMIT 1", (identity,)).fetchone()
    return row is not None


def platforms(connection: sqlite3.Connection, identity: str, kept: int = SHOWN) -> list[sqlite3.Row]:
    """manifest, config and created of the image's platforms that are kept for this one."""
    return connection.execute(
        "SELECT manifest, config, created FROM image_platforms WHERE image = ? AND removed = ? ORDER BY manifest",
        (identity, kept),
    ).fetchall()


def manifests(connection: sqlite3.Connection, identity: str) -> list[str]:
    """Digests of the manifests of all the image's platforms, the removed ones too."""
    return [row[0] for row in connection.execute("SELECT manifest FROM image_platforms WHERE image = ?", (identity,))]


def platforms_kept(connection: sqlite3.Connection, kept: int) -> list[tuple[str, str]]:
    """(image id, manifest digest) of each platform that is kept only for these, FOR_CONTAINERS or FOR_BUILDS."""
    query = "SELECT image, manifest FROM image_platforms WHERE removed = ?"
    return [tuple(row) for row in connection.execute(query, (kept,))]


def hide_platform(connection: sqlite3.Connection, identity: str, manifest: str) -> None:
    """Mark a platform as removed, so that no list shows it; its layers stay for the containers that use them."""
    connection.execute("UPDATE image_platforms SET removed = 1 WHERE image = ? AND manifest = ?", (identity, manifest))
    _settle_image(connection, identity)


def forget_platform(connection: sqlite3.Connection, identity: str, manifest: str) -> None:
    """Delete a platform's row and its references to layers and blobs."""
    for name in ("image_platforms", "image_layers", "image_blobs"):
        connection.execute(f"DELETE FROM {name} WHERE image = ? AND manifest = ?", (identity, manifest))
    _settle_image(connection, identity)


def _settle_image(connection: sqlite3.Connection, identity: str) -> None:
    """Show an image no more, and delete its names, when none of its platforms is shown; delete it when it has none."""
    row = connection.execute("SELECT MIN(removed) FROM image_platforms WHERE image = ?", (identity,)).fetchone()
    if row[0] is None:
        forget_image(connection, identity)
    elif row[0]:
        connection.execute("UPDATE images SET removed = ? WHERE id = ?", (row[0], identity))
        connection.execute("DELETE FROM image_names WHERE image = ?", (identity,))


def forget_image(connection: sqlite3.Connection, identity: str) -> None:
    """Delete the image's row, its names, its platforms and its references to layers and blobs."""
    connection.execute("DELETE FROM images WHERE id = ?", (identity,))


def image_layers(connection: sqlite3.Connection, identity: str, manifest: str) -> list[sqlite3.Row]:
    """number, diff_id and size of the layers of one manifest of the image, lowest first, each once.

    A layer that an image has twice (usually an empty one) is given only in its upper place. That suffices, and
    overlayfs does not take a directory twice.
    """
    return connection.execute(
        """SELECT number, diff_id, size FROM image_layers JOIN layers ON layer = number
           WHERE image = ? AND manifest = ? GROUP BY number ORDER BY MAX(position)""",
        (identity, manifest),
    ).fetchall()


def shared_layers(connection: sqlite3.Connection) -> set[int]:
    """Numbers of the layers that more than one image has."""
    return {
        row[0]
        for row in connection.execute("SELECT layer FROM image_layers GROUP BY layer HAVING COUNT(DISTINCT image) > 1")
    }


def shared_blobs(connection: sqlite3.Connection) -> set[str]:
    """Digests of the blobs that more than one image has."""
    return {
        row[0]
        for row in connection.execute("SELECT digest FROM image_blobs GROUP BY digest HAVING COUNT(DISTINCT image) > 1")
    }


def holdings(connection: sqlite3.Connection) -> list[tuple[str, str, int]]:
    """(image id, layer number or blob digest, bytes) of each layer and blob of every image, the removed ones too."""
    return [
        tuple(row)
        for row in connection.execute(
            """SELECT DISTINCT image, CAST(number AS TEXT), size FROM image_layers JOIN layers ON layer = number
               UNION SELECT DISTINCT image, digest, size FROM image_blobs"""
        )
    ]


def image_blobs(connection: sqlite3.Connection, identity: str, manifest: str = "") -> list[tuple[str, int]]:
    """digest and size of the blobs of the image, or of one of its platforms where `manifest` names it."""
    where, values = (" AND manifest = ?", (identity, manifest)) if manifest else ("", (identity,))
    return [
        tuple(row)
        for row in connection.execute(f"SELECT DISTINCT digest, size FROM image_blobs WHERE image = ?{where}", values)
    ]


def held_blobs(connection: sqlite3.Connection) -> set[str]:
    """Digests of the blobs that belong to any image, or to a result that the build cache holds."""
    ours = {row[0] for row in connection.execute("SELECT DISTINCT digest FROM image_blobs")}
    return ours | buildresults.held_blobs(connection)


def blob_is_held(connection: sqlite3.Connection, digest: str) -> bool:
    """True when the blob belongs to an image, or to a result that the build cache holds."""
    row = connection.execute("SELECT 1 FROM image_blobs WHERE digest = ? LIMIT 1", (digest,)).fetchone()
    return row is not None or buildresults.blob_is_held(connection, digest)


def set_name(connection: sqlite3.Connection, name: str, identity: str, tagged_ns: int) -> None:
    """Make `name` (in the form of `Reference.canonical`) point at the image, whatever it pointed at before."""
    connection.execute(
        """INSERT INTO image_names (name, image, tagged_ns) VALUES (?, ?, ?)
           ON CONFLICT (name) DO UPDATE SET image = excluded.image, tagged_ns = excluded.tagged_ns""",
        (name, identity, tagged_ns),
    )


def drop_name(connection: sqlite3.Connection, name: str) -> None:
    """Delete a name; its image stays."""
    connection.execute("DELETE FROM image_names WHERE name = ?", (name,))


def image_by_name(connection: sqlite3.Connection, name: str) -> str | None:
    """The id of the image that a name points at, None for a name that does not exist."""
    row = connection.execute("SELECT image FROM image_names WHERE name = ?", (name,)).fetchone()
    return row[0] if row else None


def image_names(connection: sqlite3.Connection, identity: str) -> list[tuple[str, int]]:
    """(name, time of tagging in ns since the epoch) of each name of one image, sorted by name."""
    return [
        tuple(row)
        for row in connection.execute(
            "SELECT name, tagged_ns FROM image_names WHERE image = ? ORDER BY name", (identity,)
        )
    ]
