"""What a generator has written, read from a directory; and all that a hostile one may leave there."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.daemon.buildkit.exporters.intoto import SPDX, Attestation, Subject
from engine.daemon.buildkit.sbom import generated
from engine.errors import Invalid, NotFound


def read(place: Path) -> list[Attestation]:
    """What is read of a directory."""
    root = os.open(place, os.O_PATH | os.O_DIRECTORY)
    try:
        return generated.read(root)
    finally:
        os.close(root)


def statement(**more: object) -> str:
    return json.dumps({"_type": "x", "predicateType": SPDX, "predicate": {"name": "é"}, **more})


def test_statements_come_in_order_and_that_about_the_result_first(tmp_path: Path) -> None:
    for name in ("a.json", "sbom.spdx.json", "sbom-context.spdx.json"):
        (tmp_path / name).write_text(statement())
    found = read(tmp_path)
    assert [each.name for each in found] == ["sbom.spdx.json", "a.json", "sbom-context.spdx.json"]
    assert [each.core for each in found] == [True, False, False]
    assert {each.kind for each in found} == {SPDX}
    assert json.loads(found[0].predicate) == {"name": "é"}
    assert not any(each.subjects for each in found)


def test_a_statement_may_say_itself_what_it_is_about(tmp_path: Path) -> None:
    subject = {"name": "f", "digest": {"sha256": "a" * 64, "sha1": "b" * 40}}
    (tmp_path / "s").write_text(statement(subject=[subject, {"name": "", "digest": None}]))
    (found,) = read(tmp_path)
    assert found.subjects == (Subject("f", (f"sha256:{'a' * 64}", f"sha1:{'b' * 40}")), Subject("_", ()))


def test_nothing_was_written(tmp_path: Path) -> None:
    assert read(tmp_path) == []


def link(place: Path, target: str) -> None:
    (place / "s").symlink_to(target)


def large(place: Path) -> None:
    with open(place / "s", "wb") as file:
        file.truncate(17 << 20)


def many_bytes(place: Path) -> None:
    for number in range(5):
        (place / str(number)).write_text(statement(predicate="x" * (15 << 20)))


def many(place: Path) -> None:
    for number in range(101):
        (place / str(number)).write_text(statement())


def subjects(*given: object) -> Callable[[Path], object]:
    return lambda place: (place / "s").write_text(statement(subject=list(given)))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda place: link(place, "/etc/passwd"), "open s: no such file or directory"),
        (lambda place: link(place, "../outside"), "open s: no such file or directory"),
        (lambda place: link(place, "s"), "open s: too many levels"),
        (lambda place: os.mkfifo(place / "s"), "not a regular file"),
        (lambda place: (place / "s").mkdir(), "not a regular file"),
        (lambda place: (place / "a\nb").write_text(statement()), "a file of the name"),
        (lambda place: open(os.fsencode(place) + b"/\xff", "w").close(), "a file of the name"),
        (large, "exceeds maximum allowed size"),
        (many_bytes, "more than 67108864 bytes"),
        (many, "more than 100 files"),
        (lambda place: (place / "s").write_text("{}"), "does not match required predicate type"),
        (
            lambda place: (place / "s").write_text(statement(predicateType="https://slsa.dev/provenance/v1")),
            "does not match required predicate type",
        ),
        (lambda place: (place / "s").write_text(statement() + statement()), "not a single JSON object"),
        (lambda place: (place / "s").write_text('{"a":' + "[" * 100_000), "nested too deeply"),
        (lambda place: (place / "s").write_text(statement(subject={})), "subjects are no list"),
        (subjects(*({} for _ in range(1001))), "or too many"),
        (subjects(1), "wrong type"),
        (subjects({"name": 1}), "wrong type"),
        (subjects({"digest": []}), "wrong type"),
        (subjects({"digest": {"sha256": "../../etc"}}), "a digest of a subject is none"),
        (subjects({"digest": {"": "a" * 64}}), "a digest of a subject is none"),
    ],
)
def test_what_is_hostile_ends_in_words(tmp_path: Path, spoil: Callable[[Path], object], words: str) -> None:
    (tmp_path / "outside").write_text(statement())
    place = tmp_path / "out"
    place.mkdir()
    spoil(place)
    with pytest.raises((Invalid, NotFound), match=words):
        read(place)


def test_a_link_inside_is_followed(tmp_path: Path) -> None:
    (tmp_path / "sbom.spdx.json").write_text(statement())
    (tmp_path / "t").symlink_to("/sbom.spdx.json")
    assert [each.name for each in read(tmp_path)] == ["sbom.spdx.json", "t"]
