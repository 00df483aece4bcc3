"""One build that both sides are asked for: a Dockerfile, its context, and what the client says beside them. Pure but
for `written`.
"""

import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

EPOCH = 1_500_000_000  # what SOURCE_DATE_EPOCH is where it is given


class File(NamedTuple):
    """One entry of a context. kind: `file`, `dir`, `link` (to the name in `text`) or `hard` (the same)"""

    name: str
    kind: str = "file"
    text: str = ""
    mode: int = 0o644

    @property
    def time(self) -> int:
        """Seconds, on both sides of the epoch. Another text has another time: builders tell files by size and time."""
        return EPOCH - 50_000_000 + zlib.crc32(f"{self.name} {self.text} {self.mode}".encode()) % 100_000_000


class Case(NamedTuple):
    """options: of the frontend; output: attributes of the exporter, `type` among them"""

    dockerfile: str
    files: tuple[File, ...] = ()
    options: Mapping[str, str] = {}
    output: Mapping[str, str] = {}

    def shown(self) -> str:
        """How to see it again."""
        files = " ".join(f"{each.name}({each.kind}:{each.mode:o}:{each.text!r:.30})" for each in self.files)
        said = " ".join(f"{key}={value}" for key, value in (*self.options.items(), *self.output.items()))
        return f"{self.dockerfile.rstrip()}\n-- {said}\n-- {files}"

    def dumped(self) -> dict:
        """As JSON has it."""
        return {
            "dockerfile": self.dockerfile,
            "files": [list(each) for each in self.files],
            "options": dict(self.options),
            "output": dict(self.output),
        }

    @classmethod
    def loaded(cls, kept: dict) -> "Case":
        """What `dumped` has given."""
        files = tuple(File(*each) for each in kept["files"])
        return cls(kept["dockerfile"], files, kept["options"], kept["output"])


def written(case: Case, place: Path) -> None:
    """The context's files and the Dockerfile, in a new directory."""
    place.mkdir(parents=True)
    made = (*case.files, File("Dockerfile", text=case.dockerfile))
    for each in made:
        path = place / each.name
        path.parent.mkdir(parents=True, exist_ok=True)
        if each.kind == "dir":
            path.mkdir(exist_ok=True)
        elif each.kind == "link":
            path.symlink_to(each.text)
        elif each.kind == "hard":
            path.hardlink_to(place / each.text)
        else:
            path.write_bytes(each.text.encode("latin-1") if each.name.endswith("gz") else each.text.encode())
        if each.kind in ("file", "dir"):
            path.chmod(each.mode)
    for path in sorted({place / each.name for each in made} | {*place.rglob("*"), place}, reverse=True):
        known = next((each for each in made if place / each.name == path), File(str(path.relative_to(place))))
        if known.kind != "hard":
            os.utime(path, (known.time, known.time), follow_symlinks=False)


def digest(value: object) -> str:
    """A short name of a value of JSON."""
    return f"{zlib.crc32(json.dumps(value, sort_keys=True).encode()):08x}"
