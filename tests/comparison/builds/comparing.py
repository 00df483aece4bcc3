"""In what two outcomes of one build differ. Pure."""

import difflib
import json
from collections.abc import Iterator

from tests.replay.compare import Departure

# Lists of which each element stands for itself: steps, and what the linter says.
IN_TURN = frozenset({"history", "warnings"})


def departures(theirs: dict, ours: dict) -> list[Departure]:
    """Everything in which ours departs from buildkitd's."""
    if theirs["status"] != ours["status"]:
        said = f"{theirs.get('error', '')}{ours.get('error', '')}".rpartition("error: ")[2]
        return [Departure("status", "", f"{theirs['status']}, ours {ours['status']}: {said}")]
    if theirs["status"] != "made":
        return list(words(theirs.get("error", ""), ours.get("error", "")))
    found = []
    for key in sorted(theirs.keys() - {"images"}):
        found += values(theirs[key], ours[key], key)
    if list(theirs["images"]) != list(ours["images"]):
        return [*found, Departure("value", "platforms", f"{[*theirs['images']]}, ours {[*ours['images']]}")]
    for platform, image in theirs["images"].items():
        found += of_images(image, ours["images"][platform])
    return found


def words(theirs: str, ours: str) -> Iterator[Departure]:
    """The two texts of a failure: what is said last, and what is shown of the Dockerfile before."""
    pair = [f"\n{text}".rpartition("\nerror: ") for text in (theirs, ours)]
    if pair[0][2] != pair[1][2]:
        yield Departure("error", "", f"{pair[0][2]}\n   ours: {pair[1][2]}")
    elif pair[0][0] != pair[1][0]:
        yield Departure("excerpt", "", f"{pair[0][0]}\n   ours: {pair[1][0]}")


def of_images(theirs: dict, ours: dict) -> Iterator[Departure]:
    """One platform's images. Of digests only those are told that nothing else explains."""
    found: list[Departure] = []
    for key in ("config", "history", "descriptor", "manifest"):
        found += values(theirs[key], ours[key], key)
    if len(theirs["layers"]) != len(ours["layers"]):
        found.append(Departure("length", "layers", f"{len(theirs['layers'])}, ours {len(ours['layers'])}"))
    else:
        pairs = zip(theirs["diff_ids"] or (), ours["diff_ids"] or (), strict=True)
        for one, other, ids in zip(theirs["layers"], ours["layers"], pairs, strict=True):
            found += of_layers(one, other, ids)
    if not found and theirs["keys"] != ours["keys"]:
        found.append(Departure("bytes", "config", f"{theirs['keys']}, ours {ours['keys']}"))
    # Two programs do not compress alike; times of the build itself are no differences.
    compressed = any(row["mediaType"].endswith(("gzip", "zstd")) for row in theirs["manifest"]["layers"] or ())
    dated = "now" in repr(theirs["layers"]) or "NOW" in repr(theirs["config"])
    if not found and not compressed and not dated and theirs["digest"] != ours["digest"]:
        found.append(Departure("digest", "manifest", f"{theirs['config digest'] == ours['config digest']} config"))
    yield from found


def of_layers(theirs: list[dict], ours: list[dict], ids: tuple[str, str]) -> Iterator[Departure]:
    """The entries of one layer, then their order, then its bytes."""
    pair = [{entry["name"].rstrip("/"): entry for entry in side} for side in (theirs, ours)]
    for which, one, other in (("theirs", *pair), ("ours", *reversed(pair))):
        for name in one.keys() - other.keys():
            yield Departure(f"{which} alone", "entry", f"{one[name]}")
    for name in sorted(pair[0].keys() & pair[1].keys()):
        for key, value in pair[0][name].items():
            if value != pair[1][name][key]:
                yield Departure("value", f"entry.{key}", f"{value!r}, ours {pair[1][name][key]!r} of {pair[0][name]}")
    if pair[0] == pair[1] and theirs != ours:
        yield Departure("order", "layer", f"{names(theirs)}, ours {names(ours)}")
    elif theirs == ours and ids[0] != ids[1] and not any(entry.get("time") == "now" for entry in ours):
        yield Departure("bytes", "layer", "equal entries of other bytes")


def each_alone(theirs: list, ours: list) -> Iterator[tuple[str, str]]:
    """What one of two lists has alone."""
    shown = [[json.dumps(step, sort_keys=True, ensure_ascii=False) for step in side] for side in (theirs, ours)]
    for line in difflib.ndiff(*shown):
        if line[0] in "-+":
            yield "theirs alone" if line[0] == "-" else "ours alone", line[2:]


def names(entries: list[dict]) -> list[str]:
    """In the order of the archive."""
    return [entry["name"] for entry in entries]


def values(theirs: object, ours: object, where: str) -> Iterator[Departure]:
    """Keys, types and values, all the way down; lists of equal length by their elements."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted({*theirs, *ours}):
            if key not in ours:
                yield Departure("missing", f"{where}.{key}", f"{theirs[key]!r}")
            elif key not in theirs:
                yield Departure("extra", f"{where}.{key}", f"{ours[key]!r}")
            else:
                yield from values(theirs[key], ours[key], f"{where}.{key}")
    elif isinstance(theirs, list) and isinstance(ours, list) and where in IN_TURN and theirs != ours:
        for which, line in each_alone(theirs, ours):
            yield Departure(which, where, line)
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for one, other in zip(theirs, ours, strict=True):
            yield from values(one, other, f"{where}[]")
    elif theirs != ours or type(theirs) is not type(ours):
        yield Departure("value", where, f"{theirs!r}, ours {ours!r}")
