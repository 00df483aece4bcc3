"""Recorded builds of a buildkitd, made again by this engine; and the parts of the comparison that need no daemon."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from tests.__main__ import CACHE
from tests.comparison.builds import bases, comparing, grammar, outcome, recorded
from tests.comparison.builds.case import Case, File, written
from tests.comparison.builds.differences import DIFFERENCES, MOST
from tests.comparison.builds.sides import Layouts, Side
from tests.harness import rootfs
from tests.harness.daemon import Daemon
from tests.replay.compare import Departure
from tests.setup.buildctl import PROGRAMS, VERSION

AT_ONCE = 4


@pytest.fixture
def side(daemon: Daemon, tmp_path: Path) -> Side:
    if not PROGRAMS.complete(CACHE):
        pytest.skip(f"needs buildctl {VERSION}: {PROGRAMS.unable() or '`python3 -m tests` could not build it'}")
    layouts = Layouts(tmp_path / "layouts", programs=False)
    return Side(f"unix://{daemon.socket}", tmp_path / "archives", PROGRAMS.place(CACHE, "buildctl"), layouts)


def test_builds_give_what_buildkitd_gave(side: Side, tmp_path: Path) -> None:
    """To the last byte of each image's manifest, and in the same words where it failed."""
    kept = list(recorded.read())
    assert len(kept) == recorded.MADE + recorded.FAILED

    def again(numbered: tuple[int, tuple[Case, dict]]) -> list[str]:
        number, (case, theirs) = numbered
        context = tmp_path / "contexts" / str(number)
        written(case, context)
        found = comparing.departures(theirs, json.loads(json.dumps(side.build(case, context))))
        unmeant = [each for each in found if not any(row.covers(each) for row in DIFFERENCES)]
        return [f"{each.what} {each.where}: {each.how}\n{case.shown()}" for each in unmeant]

    with ThreadPoolExecutor(AT_ONCE) as threads:
        different = [text for texts in threads.map(again, enumerate(kept)) for text in texts]
    assert not different, "\n\n".join(different)


def test_a_build_is_that_of_its_seed() -> None:
    """The same seed draws the same build, another one another."""
    first, again, other = ([grammar.case(Random(f"{seed}/{number}")) for number in range(50)] for seed in "aab")
    assert first == again != other
    assert [Case.loaded(json.loads(json.dumps(each.dumped()))) for each in first] == first


def test_every_instruction_and_flag_is_drawn() -> None:
    """In a thousand builds, of which most are right."""
    text = "\n".join(grammar.case(Random(number)).dockerfile for number in range(1000))
    instructions = "ARG ENV COPY ADD WORKDIR RUN USER LABEL EXPOSE VOLUME CMD ENTRYPOINT SHELL STOPSIGNAL HEALTHCHECK"
    flags = "--chown= --chmod= --link --parents --exclude= --from= --platform= --mount= --unpack <<E"
    for word in (*instructions.split(), *flags.split(), "ONBUILD", "MAINTAINER"):
        assert text.count(word) > 2, word


def test_a_context_is_written_as_it_is_drawn(tmp_path: Path) -> None:
    """Kinds, modes and times; the times are on both sides of the epoch."""
    files = (
        File("d/f", text="x", mode=0o640),
        File("l", "link", "nowhere"),
        File("h", "hard", "d/f"),
        File("e", "dir"),
    )
    written(Case("FROM scratch\n", files), tmp_path / "c")
    found = os.stat(tmp_path / "c/d/f")
    assert (found.st_mode & 0o7777, found.st_nlink, found.st_mtime) == (0o640, 2, files[0].time)
    assert os.readlink(tmp_path / "c/l") == "nowhere" and (tmp_path / "c/Dockerfile").read_text() == "FROM scratch\n"
    times = [grammar.pools.FILES[number][0].time for number in range(len(grammar.pools.FILES))]
    assert min(times) < grammar.EPOCH < max(times)


def test_entries_have_all_that_their_headers_say() -> None:
    """Names of any length, modes, contents, links, and what follows the last."""
    tar = rootfs.archive([("n" * 120, 0o644, b"x"), ("a", 0o4755, b"")], (("d", 0o700),), [("l", "a")])
    rows = {row["name"]: row for row in outcome.entries(tar)}
    assert [rows["d/"]["kind"], rows["d/"]["mode"], rows["l"]["link"], rows["a"]["mode"]] == ["5", "700", "a", "4755"]
    assert rows["n" * 120]["contents"].startswith("1 ") and "path=" in rows["n" * 120]["more"]
    assert rows["(the end)"]["more"].endswith(" bytes")


def made(**more: object) -> dict:
    """An outcome of one image of one layer, with changes in the image."""
    image = {
        "digest": "sha256:1",
        "descriptor": {},
        "manifest": {"layers": [{"mediaType": "tar"}]},
        "history": [{"created_by": "x"}],
        "diff_ids": ["sha256:2"],
        "config": {"config": {"Env": ["A=b"]}},
        "keys": "",
        "config digest": "sha256:3",
        "layers": [[{"name": "d/", "mode": "755"}, {"name": "d/f", "mode": "644"}]],
        **more,
    }
    return {"status": "made", "images": {"linux/amd64": image}}


@pytest.mark.parametrize(
    ("ours", "what", "where"),
    [
        ({"status": "failed", "error": "error: no"}, "status", ""),
        (made(config={"config": {"Env": ["A=c"]}}), "value", "config.config.Env[]"),
        (made(config={"config": {}}), "missing", "config.config.Env"),
        (made(history=[]), "theirs alone", "history"),
        (made(layers=[]), "length", "layers"),
        (made(layers=[[{"name": "d/", "mode": "755"}]]), "theirs alone", "entry"),
        (made(layers=[[{"name": "d", "mode": "755"}, {"name": "d/f", "mode": "644"}]]), "value", "entry.name"),
        (made(layers=[[{"name": "d/f", "mode": "644"}, {"name": "d/", "mode": "755"}]]), "order", "layer"),
        (made(diff_ids=["sha256:4"]), "bytes", "layer"),
        (made(keys="{}"), "bytes", "config"),
        (made(digest="sha256:5"), "digest", "manifest"),
    ],
)
def test_a_difference_is_found(ours: dict, what: str, where: str) -> None:
    """Of each kind, down to bytes that nothing else explains."""
    assert not comparing.departures(made(), made())
    assert (what, where) in {(found.what, found.where) for found in comparing.departures(made(), ours)}


def test_the_words_of_a_failure_are_compared() -> None:
    """And, where they are equal, what is shown of the Dockerfile before them."""
    kept = outcome.failed('{"vertexes": []}\nDockerfile:1\nerror: one\n')
    for other, what in (("error: one\n", "excerpt"), ("Dockerfile:1\nerror: two\n", "error")):
        assert [found.what for found in comparing.departures(kept, outcome.failed(other))] == [what]


def test_the_bases_of_the_recorded_builds_are_the_same_on_each_host(tmp_path: Path) -> None:
    """No program of the host is in them."""
    assert bases.layers(programs=False) == bases.layers(programs=False) != bases.layers(programs=True)
    names = {name: bases.written(name, tmp_path / name, programs=False) for name in bases.CONFIGS}
    assert len(set(names.values())) == len(names)


def test_the_table_is_short_and_has_reasons() -> None:
    """And no row means everything."""
    assert len(DIFFERENCES) <= MOST
    assert all(len(row.reason.split()) > 3 for row in DIFFERENCES)
    assert not any(row.covers(Departure("value", "config.config.Env[]", "1, ours 2")) for row in DIFFERENCES)
