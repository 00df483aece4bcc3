"""What came of a build, as JSON: whether it failed and in which words, and all that is in the exported archive. Pure.

An entry of a layer has all that its header says, so that equal entries are equal bytes.
"""

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Iterator

from engine.daemon.tar import compression

BLOCK = 512
# Later than all times that contexts, bases and SOURCE_DATE_EPOCH have: the time of the build itself.
TODAY = 1_780_000_000
IDS = re.compile(r"\b[0-9a-z]{25}\b")
# What buildctl says of itself, and of the log that it writes.
TOLD = re.compile(r'^(time=".*|\s*)$')
# The times that a build has taken itself, when none was given.
NOW = re.compile(r"20(2[6-9]|[3-9]\d)-\d\d-\d\dT[0-9:.]+Z")


def failed(stderr: str) -> dict:
    """A build that has failed: what the client says last, without the progress."""
    lines = [line for line in stderr.splitlines() if not line.startswith("{") and not TOLD.match(line)]
    return {"status": "failed", "error": IDS.sub("ID", "\n".join(lines)[-3000:])}


def made(archive: bytes, stderr: str) -> dict:
    """A build that has given this archive; the digests say whether all of it is equal."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        files = {each.name: tar.extractfile(each).read() for each in tar if each.isfile()}  # type: ignore[union-attr]
    index = json.loads(files["index.json"])
    found: dict = {"status": "made", "warnings": warnings(stderr), "images": {}}
    found["archive"] = sorted(name for name in files if "blobs/" not in name)
    found["manifest.json"] = named(files)
    found["index"] = [without(each) for each in index["manifests"]]
    for descriptor in index["manifests"]:
        for platform, row in images(files, descriptor):
            found["images"][platform] = image(files, row)
    return found


def named(files: dict[str, bytes]) -> object:
    """What docker's own list says, but for the names of blobs."""
    if "manifest.json" not in files:
        return None
    return [
        {"RepoTags": row["RepoTags"], "layers": len(row["Layers"] or ())} for row in json.loads(files["manifest.json"])
    ]


def without(descriptor: dict) -> dict:
    """A descriptor without digest and size, which are compared where the blob is."""
    return json.loads(NOW.sub("NOW", json.dumps({k: v for k, v in descriptor.items() if k not in ("digest", "size")})))


def blob(files: dict[str, bytes], descriptor: dict) -> bytes:
    """The blob of a descriptor."""
    return files["blobs/" + descriptor["digest"].replace(":", "/")]


def images(files: dict[str, bytes], descriptor: dict) -> Iterator[tuple[str, dict]]:
    """Platform and descriptor of each image, those within an index too."""
    if "index" in descriptor["mediaType"] or "list" in descriptor["mediaType"]:
        index = json.loads(blob(files, descriptor))
        for each in index["manifests"]:
            yield from images(files, each)
    else:
        platform = descriptor.get("platform", {})
        yield "/".join(filter(None, (platform.get(key) for key in ("os", "architecture", "variant")))), descriptor


def image(files: dict[str, bytes], row: dict) -> dict:
    """One image: its manifest without digests, its config, and each layer's entries."""
    manifest = json.loads(blob(files, row))
    raw = blob(files, manifest["config"])
    config = json.loads(NOW.sub("NOW", raw.decode()))
    return {
        "digest": row["digest"],
        "descriptor": without(row),
        "manifest": {
            **{key: value for key, value in manifest.items() if key not in ("config", "layers")},
            "config": without(manifest["config"]),
            "layers": manifest["layers"] and [without(each) for each in manifest["layers"]],
        },
        "history": config.pop("history", None),
        "diff_ids": config.pop("rootfs")["diff_ids"],
        "config": config,
        "keys": re.sub(r'"(sha256:|20\d\d-)[^"]*"', '"..."', raw.decode()) if len(raw) < 20000 else "",
        "config digest": manifest["config"]["digest"],
        "layers": [entries(opened(blob(files, each))) for each in manifest["layers"] or ()],
    }


def opened(data: bytes) -> bytes:
    """A layer without its compression."""
    return compression.Unpacked(io.BytesIO(data)).read()


def entries(tar: bytes) -> list[dict]:
    """All that each header says, and one row for what follows the last."""
    found: list[dict] = []
    place, more = 0, ""
    while place + BLOCK <= len(tar) and tar[place : place + BLOCK].strip(b"\0"):
        head = tar[place : place + BLOCK]
        size = octal(head[124:136])
        data = tar[place + BLOCK : place + BLOCK + size]
        place += BLOCK + -(-size // BLOCK) * BLOCK
        kind = head[156:157].decode()
        if kind in "xgLK":
            more += f" {kind}{data!r}"
            continue
        name, link, prefix = (text(head[a:b]) for a, b in ((0, 100), (157, 257), (345, 500)))
        devices = f"{octal(head[329:337])}:{octal(head[337:345])}" if head[329:345].strip(b"\0 0") else ""
        magic = "" if head[257:265] == b"ustar\x0000" else repr(head[257:265])
        time = octal(head[136:148])
        whole = re.search(r" path=(.*?)\\n\d* ?", more)
        found.append(
            {
                "name": whole[1] if whole else f"{prefix}|{name}" if prefix else name,
                "kind": kind,
                "mode": f"{octal(head[100:108]):o}",
                "owner": f"{octal(head[108:116])}:{octal(head[116:124])}",
                "names": f"{text(head[265:297])}:{text(head[297:329])}",
                "time": "now" if time > TODAY else time,
                "link": link,
                "contents": f"{size} {hashlib.sha256(data).hexdigest()[:12]}" if size else "",
                "more": f"{devices}{magic}{more} {name}" if whole else f"{devices}{magic}{more}",
            }
        )
        more = ""
    return [*found, {"name": "(the end)", "more": f"{len(tar) - place} bytes"}]


def text(field: bytes) -> str:
    """A field that ends with a NUL."""
    return field.split(b"\0")[0].decode("utf-8", "backslashreplace")


def octal(field: bytes) -> int:
    """A number, in either of tar's forms."""
    if field[0] & 0x80:
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
    return int(field.strip(b"\0 ") or b"0", 8)


def warnings(stderr: str) -> list[str]:
    """What the linter said, each with its line."""
    found = []
    for line in stderr.splitlines():
        if line.startswith("{") and '"warnings"' in line:
            for each in json.loads(line).get("warnings") or ():
                found.append(f"{base64(each.get('short'))} {[r['start'].get('line') for r in each.get('range') or ()]}")
    return sorted(set(found))


def base64(data: str | None) -> str:
    """Text that JSON has as bytes."""
    import base64 as codec

    return codec.b64decode(data or "").decode(errors="replace")
