"""The comments of a bill of materials that say in which layer each file is."""

import json
import os
from pathlib import Path

import pytest

from engine.daemon.buildkit.exporters import layerids
from engine.daemon.buildkit.exporters.layerids import Unpacked


def noted(tmp_path: Path, bill: object) -> bytes:
    layers = [Unpacked(str(tmp_path / name), f"sha256:{name}") for name in ("low", "high")]
    return layerids.noted(json.dumps(bill).encode(), layers, lambda: None)


@pytest.fixture(autouse=True)
def layers(tmp_path: Path) -> None:
    """Two layers: `both` is in either; a directory of the upper one is a link that leads out."""
    for name, files in (("low", ("both", "etc/low")), ("high", ("both", "etc/high"))):
        for file in files:
            path = tmp_path / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("x")
    (tmp_path / "high" / "out").symlink_to("../outside")
    os.symlink("nowhere", tmp_path / "high" / "etc" / "link")


def test_each_file_gets_its_uppermost_layer(tmp_path: Path) -> None:
    names = ["both", "/etc/low", "./etc/high", "etc/link", "etc", "absent", "out/secret", "../outside/secret", "a\0b"]
    bill = {"files": [{"fileName": name} for name in names], "creationInfo": {"creators": ["Tool: t"]}}
    made = json.loads(noted(tmp_path, bill))
    comments = {file["fileName"]: file.get("comment") for file in made["files"]}
    assert comments == {
        **dict.fromkeys(names),
        "both": "layerID: sha256:high",
        "/etc/low": "layerID: sha256:low",
        "./etc/high": "layerID: sha256:high",
        "etc/link": "layerID: sha256:high",
    }
    assert made["creationInfo"]["creators"][0] == "Tool: t"
    assert made["creationInfo"]["creators"][1].startswith("Tool: engine-")


def test_a_comment_that_is_there_stays(tmp_path: Path) -> None:
    made = json.loads(noted(tmp_path, {"files": [{"fileName": "both", "comment": "own"}, 7, {"fileName": 8}]}))
    assert made["files"] == [{"fileName": "both", "comment": "own"}, 7, {"fileName": 8}]


@pytest.mark.parametrize("bill", [[], 7, {"files": {}}, {"creationInfo": 1}, {"creationInfo": {"creators": {}}}])
def test_what_is_no_bill_stays_as_it_is(tmp_path: Path, bill: object) -> None:
    assert noted(tmp_path, bill) == json.dumps(bill).encode()


def test_one_with_too_many_values_stays_as_it_is(tmp_path: Path) -> None:
    bill = {"files": [{"fileName": "both"}], "more": [0] * 200_001}
    assert noted(tmp_path, bill) == json.dumps(bill).encode()
