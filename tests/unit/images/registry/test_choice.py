"""What of an image goes: all of its index, one platform of it, or an error that says why nothing can."""

import json

import pytest

from engine.daemon.images import platform
from engine.daemon.images.content import Content
from engine.daemon.images.registry.choice import Choice
from engine.errors import Conflict, Invalid, NotFound
from tests.unit.images import made

OURS = platform.host().architecture
OTHERS = [name for name in ("s390x", "ppc64le", "riscv64") if name != OURS][:2]
IMAGES = {name: made.MadeImage(made.archive(made.member(name)), architecture=name) for name in (OURS, *OTHERS)}
ATTESTATION = {"vnd.docker.reference.type": "attestation-manifest"}


@pytest.fixture
def content(tmp_path) -> Content:
    return Content(str(tmp_path))


def keep(content: Content, *names: str) -> None:
    for name in names:
        for blob in (IMAGES[name].manifest, *IMAGES[name].blobs.values()):
            content.put(blob)


def choice(content: Content, *names: str, index: bytes | None = None) -> Choice:
    index = index or made.index(*(IMAGES[name].entry(architecture=name) for name in names))
    content.put(index)
    return Choice(content, made.part(made.OCI + "index.v1+json", index))


def test_a_plain_image_goes_as_it_is(content):
    keep(content, OURS)
    plan = Choice(content, IMAGES[OURS].entry()).whole()
    assert plan.target["digest"] == IMAGES[OURS].digest
    assert plan.blobs.keys() == IMAGES[OURS].blobs.keys()
    assert plan.layers == {made.digest(layer) for layer in IMAGES[OURS].packed}


def test_a_whole_index_goes_with_every_platform(content):
    keep(content, OURS, OTHERS[0])
    found = choice(content, OURS, OTHERS[0])
    plan = found.whole()
    assert not found.missing
    assert [json.loads(document.data).get("manifests") is None for document in plan.documents] == [True, True, False]
    assert plan.blobs.keys() == IMAGES[OURS].blobs.keys() | IMAGES[OTHERS[0]].blobs.keys()


def test_the_only_platform_here_goes_for_the_index(content):
    keep(content, OTHERS[0])
    found = choice(content, *IMAGES)
    assert [part["digest"] for part in found.missing] == [IMAGES[name].digest for name in (OURS, OTHERS[1])]
    assert found.best("x").target["digest"] == IMAGES[OTHERS[0]].digest


def test_a_manifest_without_its_blobs_is_not_here(content):
    keep(content, OURS)
    content.put(IMAGES[OTHERS[0]].manifest)
    assert [part["digest"] for part in choice(content, OURS, OTHERS[0]).missing] == [IMAGES[OTHERS[0]].digest]


def test_the_hosts_platform_goes_among_several(content):
    keep(content, OURS, OTHERS[0])
    assert choice(content, *IMAGES).best("x").target["digest"] == IMAGES[OURS].digest


def test_several_that_are_not_the_hosts_are_a_conflict(content):
    keep(content, *OTHERS)
    with pytest.raises(Conflict, match="multiple matching manifests found but no specific platform requested"):
        choice(content, *IMAGES).best("x")


def test_no_platform_here_is_not_found(content):
    with pytest.raises(NotFound, match="x was found but does not provide any platform"):
        choice(content, *IMAGES).best("x")


def test_a_platform_by_name(content):
    keep(content, OURS, OTHERS[0])
    found = choice(content, *IMAGES)
    wanted = platform.parse(f"linux/{OTHERS[0]}")
    assert found.of_platform(wanted, "x").target["digest"] == IMAGES[OTHERS[0]].digest
    with pytest.raises(NotFound, match=rf"specified platform \(linux/{OTHERS[1]}\)"):
        found.of_platform(platform.parse(f"linux/{OTHERS[1]}"), "x")


def test_two_manifests_of_one_platform_are_a_conflict(content):
    keep(content, OURS, OTHERS[0])
    index = made.index(IMAGES[OURS].entry(architecture=OURS), IMAGES[OTHERS[0]].entry(architecture=OURS))
    with pytest.raises(Conflict, match=f"multiple manifests found for platform linux/{OURS}"):
        choice(content, index=index).of_platform(platform.host(), "x")


def test_an_attestation_is_no_platform_and_goes_with_the_whole(content):
    keep(content, OURS, OTHERS[0])
    entry = {**IMAGES[OTHERS[0]].entry(architecture="unknown"), "annotations": ATTESTATION}
    found = choice(content, index=made.index(IMAGES[OURS].entry(architecture=OURS), entry))
    assert found.best("x").target["digest"] == IMAGES[OURS].digest
    assert len(found.whole().documents) == 3


def test_an_index_of_indexes_goes_from_the_inside_out(content):
    keep(content, OURS)
    inner = made.index(IMAGES[OURS].entry(architecture=OURS))
    content.put(inner)
    found = choice(content, index=made.index(made.part(made.OCI + "index.v1+json", inner)))
    assert [document.part["digest"] for document in found.whole().documents][:2] == [
        IMAGES[OURS].digest,
        made.digest(inner),
    ]


def test_too_deep_an_index_is_refused(content):
    keep(content, OURS)
    index = made.index(IMAGES[OURS].entry(architecture=OURS))
    for _ in range(4):
        content.put(index)
        index = made.index(made.part(made.OCI + "index.v1+json", index))
    with pytest.raises(Invalid, match="too many indexes"):
        choice(content, index=index)


def test_a_wide_index_of_one_thing_is_looked_at_once(content):
    """Three levels of a thousand equal entries are not a thousand million looks."""
    keep(content, OURS)
    index = made.index(*[IMAGES[OURS].entry(architecture=OURS)] * 1000)
    for _ in range(2):
        content.put(index)
        index = made.index(*[made.part(made.OCI + "index.v1+json", index)] * 1000)
    assert len(choice(content, index=index).whole().documents) == 4
