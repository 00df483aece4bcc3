"""What buildkitd gave to some builds, in a file of the tree: the short form compares with it, without a buildkitd.

Pure but for the file. A layer that several images have is in the file once. Builds whose outcome is not the same on
each host and on each day are not in it: those that run programs, and those with times of their own.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from tests.comparison.builds.case import Case, digest

PATH = Path(__file__).parents[2] / "data" / "builds.json"
MADE, FAILED = 48, 12
RUNS = re.compile(r"^\s*(onbuild\s+)?run\b", re.IGNORECASE | re.MULTILINE)
DATED = re.compile(r'"now"|NOW|/tmp/')


class Recording:
    """What is to be kept."""

    def __init__(self) -> None:
        self.builds: list[dict] = []
        self.layers: dict[str, list[dict]] = {}
        self.room = {"made": MADE, "failed": FAILED}

    def take(self, case: Case, found: dict) -> None:
        """Keep one, where it is to be kept and there is room."""
        if RUNS.search(case.dockerfile) or DATED.search(json.dumps(found)) or not self.room.get(found["status"]):
            return
        self.room[found["status"]] -= 1
        kept = json.loads(json.dumps(found))
        for image in kept.get("images", {}).values():
            names = [digest(layer) for layer in image["layers"]]
            self.layers.update(zip(names, image["layers"], strict=True))
            image["layers"] = names
        self.builds.append({**case.dumped(), "outcome": kept})

    def write(self, path: Path) -> None:
        """Write the file: a line for each layer and each build."""
        layers = ",\n".join(f"{json.dumps(name)}: {json.dumps(rows)}" for name, rows in sorted(self.layers.items()))
        builds = ",\n".join(json.dumps(each) for each in self.builds)
        path.write_text(f'{{"layers": {{\n{layers}\n}}, "builds": [\n{builds}\n]}}\n')


def read(path: Path = PATH) -> Iterator[tuple[Case, dict]]:
    """Each build, and what came of it."""
    whole = json.loads(path.read_text())
    for each in whole["builds"]:
        for image in each["outcome"].get("images", {}).values():
            image["layers"] = [whole["layers"][name] for name in image["layers"]]
        yield Case.loaded(each), each["outcome"]
