"""The format of caches: what is written is read again, and what strangers write ends in words."""

import json
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.daemon.builder.graph.snapshot import Part, Snapshot
from engine.daemon.builder.graph.traced import Step
from engine.daemon.buildkit import caching
from engine.daemon.buildkit.caches import cacheconfig, manifests, written
from engine.daemon.buildkit.caches.lending import Lender
from engine.daemon.buildkit.messages.control import SolveRequest
from engine.daemon.buildkit.progress import Progress
from engine.daemon.buildkit.serving import Cancelled
from engine.daemon.images.layers.store import Layer
from engine.errors import Invalid, NotBuilt, NotFound
from engine.protocols import protobuf

TIME = "2026-01-01T00:00:00Z"
KEYS = ["layers", "records", "blob", "parent", "digest", "inputs", "link", "layer", "chains"]


def digest(number: int) -> str:
    return f"sha256:{number:064x}"


def part(number: int) -> Part:
    described = {"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": digest(number), "size": number}
    return Part(Layer(number, digest(1000 + number), 1), described)


def tree(*numbers: int) -> Snapshot:
    return Snapshot(tuple(part(number) for number in numbers))


STEPS = [
    Step("0" * 64, (), tree(1), False),
    Step("1" * 64, (0,), tree(1, 2), True),
    Step("2" * 64, (0,), tree(1, 3), True),
    Step("3" * 64, (1, 2), tree(1, 2, 4), True),
]


def test_all_that_was_made_is_found_again() -> None:
    made = written.written(STEPS, None)
    config = cacheconfig.load(cacheconfig.dump(made.config))
    assert config == made.config
    assert config.results() == {
        written.key("1" * 64): [digest(1), digest(2)],
        written.key("2" * 64): [digest(1), digest(3)],
        written.key("3" * 64): [digest(1), digest(2), digest(4)],
    }
    assert [record.inputs for record in config.records] == [(), ((0,),), ((0,),), ((1,), (2,))]
    assert set(made.blobs) == {digest(1), digest(2), digest(3), digest(4)}


def test_the_least_is_what_the_result_has() -> None:
    made = written.written(STEPS, [tree(1, 2, 4).parts])
    assert set(made.config.results()) == {written.key("1" * 64), written.key("3" * 64)}
    assert set(made.blobs) == {digest(1), digest(2), digest(4)}


def test_what_a_command_has_left_empty_is_found_again() -> None:
    made = written.written([*STEPS, Step("4" * 64, (0,), tree(), True)], None)
    config = cacheconfig.load(cacheconfig.dump(made.config))
    assert config.results()[written.key("4" * 64)] == []


@pytest.mark.parametrize(("image", "oci"), [(True, True), (False, True), (False, False)])
def test_either_form_of_the_manifest(image: bool, oci: bool) -> None:
    made = written.written(STEPS, None)
    config = {"mediaType": cacheconfig.MEDIA_TYPE, "digest": digest(9), "size": 9}
    found = manifests.read(manifests.manifest(list(made.blobs.values()), config, image, oci))
    assert found.config == config
    assert {name: blob.diff_id for name, blob in found.blobs.items()} == {
        digest(number): digest(1000 + number) for number in (1, 2, 3, 4)
    }


def test_what_buildkit_writes_is_read() -> None:
    """A parent that is the first layer is left out, and times of results come along (Go's omitempty)."""
    document = {
        "layers": [{"blob": digest(1), "parent": -1}, {"blob": digest(2)}],
        "records": [
            {
                "layers": [{"layer": 1, "createdAt": TIME}],
                "digest": digest(7),
                "inputs": [[{"link": 1}]],
            },
            {"chains": [{"layers": [1, 0], "createdAt": TIME}], "digest": digest(8)},
        ],
    }
    found = cacheconfig.load(json.dumps(document).encode())
    assert found.results() == {digest(7): [digest(1), digest(2)], digest(8): [digest(2), digest(1)]}


@pytest.mark.parametrize(
    "document",
    [
        {"layers": [{"blob": digest(1), "parent": 0}], "records": [{"digest": digest(2), "layers": [{"layer": 0}]}]},
        {"layers": [{"blob": digest(1), "parent": 7}]},
        {"layers": [{"blob": "../../x", "parent": -1}]},
        {"layers": {"a": 1}},
        {"records": [{"digest": digest(1), "layers": [{"layer": 3}]}]},
        {"records": [{"digest": digest(1), "layers": [{"layer": -1}]}]},
        {"records": [{"digest": digest(1), "chains": [{"layers": [True]}]}]},
        {"records": [{"digest": digest(1), "inputs": [{"link": 0}]}]},
        {"records": [{"digest": 5}]},
        {"records": [{"digest": digest(1)}] * 50_001},
    ],
)
def test_what_cannot_be_is_refused(document: dict) -> None:
    with pytest.raises(Invalid):
        cacheconfig.load(json.dumps(document).encode()).results()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-3, 5) | st.sampled_from([digest(1), "x"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(KEYS),
                inner,
            )
        ),
        max_leaves=25,
    )
)
def test_any_document_ends_in_words(document: object) -> None:
    try:
        cacheconfig.load(json.dumps(document).encode()).results()
    except Invalid:
        pass


def test_a_client_may_tidy_its_directory_afterwards() -> None:
    """Which is its own doing: the daemon is told of it, and writes the same."""
    asked = protobuf.decode(SolveRequest, b"")
    asked["Cache"] = {"Exports": [{"Type": "local", "Attrs": {"dest": "d", "reset": "true"}}]}
    assert caching.targets_of(asked)


@pytest.mark.parametrize("kind", ["gha", "s3", "azblob"])
def test_what_is_not_built_is_named(kind: str) -> None:
    asked = protobuf.decode(SolveRequest, b"")
    asked["Cache"] = {"Exports": [{"Type": kind, "Attrs": {}}]}
    with pytest.raises(NotBuilt, match=f"the cache {kind} "):
        caching.targets_of(asked)


class Place:
    """A place with an empty cache, or with none. close: is noted"""

    def __init__(self, there: bool) -> None:
        self.there, self.closed = there, False

    def document(self) -> bytes:
        if not self.there:
            raise NotFound("manifest unknown")
        return b'{"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}'

    def close(self) -> None:
        self.closed = True


def lender(*places: Place, check: Callable[[], None] = lambda: None) -> tuple[Lender, Progress]:
    progress = Progress("ref")
    named = [(f"place {number}", lambda place=place: place) for number, place in enumerate(places)]
    return Lender(named, progress, check), progress  # type: ignore[arg-type]


def test_caches_are_read_when_the_build_begins_and_one_that_cannot_be_is_told_of() -> None:
    places = Place(True), Place(False)
    made, progress = lender(*places)
    made.begin()
    made.wait()
    made.close()
    progress.close()
    ended = [vertex for event in progress.follow() if event for vertex in event["vertexes"] if vertex["completed"]]
    assert [(vertex["name"], vertex["error"]) for vertex in ended] == [
        ("importing cache manifest from place 0", ""),
        ("importing cache manifest from place 1", "manifest unknown"),
    ]
    assert all(place.closed for place in places)


def test_a_cache_that_is_read_too_late_is_closed() -> None:
    place = Place(True)
    made, _ = lender(place)
    made.close()
    made.begin()
    made.wait()
    assert place.closed


def test_who_gives_up_does_not_wait() -> None:
    def check() -> None:
        raise Cancelled("gone")

    made, _ = lender(check=check)
    with pytest.raises(Cancelled):
        made.wait()


def test_the_frontend_of_an_image_names_caches_of_its_client_alone() -> None:
    """What it fills itself would be lent to the steps of others."""
    own = {"Type": "local", "Attrs": {"src": "s", "digest": digest(1)}}
    asked = protobuf.decode(SolveRequest, b"")
    asked["Cache"] = {"Imports": [own]}
    job = SimpleNamespace(asked=asked, named=[])
    caching.lend_more(None, job, [own], own=False)  # type: ignore[arg-type]
    other = {**own, "Attrs": {**own["Attrs"], "src": "other"}}
    with pytest.raises(NotBuilt, match="caches that a frontend of an image imports"):
        caching.lend_more(None, job, [own, other], own=False)  # type: ignore[arg-type]
    many = [{**other, "Attrs": {"src": str(number)}} for number in range(100)]
    with pytest.raises(Invalid, match="at most 100 caches"):
        caching.lend_more(None, job, many, own=True)  # type: ignore[arg-type]
    assert not job.named
