"""Pruning: what goes and what stays, what is told, and how many bytes that frees."""

import pytest

from engine.daemon.images.reference import Reference
from engine.daemon.images.verbs import prune as pruning
from engine.daemon.images.verbs import save
from engine.errors import Invalid
from tests.harness import parts
from tests.unit.images import several
from tests.unit.images.several import import_
from tests.unit.images.test_platforms_here import HOST, NOBODY, using


def container(image, asked):
    return parts.container(image=asked, image_id=image.id, layers=image.layers)


def prune(store, used_by=NOBODY, **filters):
    return pruning.prune(store, filters, used_by)


def test_only_images_without_a_name_are_pruned(store, told):
    named, dangling = import_(store, "named"), import_(store, contents=b"y")
    size = dangling.size
    records, freed = prune(store)
    assert records == [{"Untagged": dangling.id}, {"Deleted": dangling.id}]
    assert freed == size and told[-3:] == [("untag", dangling.id), ("delete", dangling.id), ("prune", str(size))]
    assert [image.id for image in store.all()] == [named.id]
    assert prune(store) == (None, 0)


def test_all_that_no_container_uses_is_pruned_and_no_name_of_one(store):
    used, unused = import_(store, "used"), import_(store, "unused", b"y")
    store.tag(used, Reference.parse("more:1"))
    store.tag(used, Reference.parse("b"))
    records, _ = prune(store, using(container(used, "used")), dangling=("false",))
    gone = [{"Untagged": "b:latest"}, {"Untagged": "more:1"}, {"Untagged": "unused:latest"}, {"Deleted": unused.id}]
    assert sorted(records, key=str) == sorted(gone, key=str)
    assert store.find(used.id).repo_tags == ("used:latest",)
    store.tag(used, Reference.parse("b"))
    prune(store, using(container(used, used.id[7:19])), dangling=("false",))
    assert store.find(used.id).repo_tags == ("used:latest",), "the last name stays for who was made by the id"


def test_the_filters_of_a_prune_hold(store):
    kept = import_(store, changes=["LABEL keep=1"])
    import_(store, contents=b"y")
    assert prune(store, label=("nope",)) == (None, 0) and prune(store, until=("1h",)) == (None, 0)
    records, _ = prune(store, **{"label!": ("keep=1",)})
    assert len(records) == 2 and store.find(kept.id)
    with pytest.raises(Invalid, match="invalid filter 'reference'"):
        prune(store, reference=("a",))
    with pytest.raises(Invalid):
        prune(store, dangling=("x",))


def test_what_a_failed_pull_has_left_is_pruned_unless_a_filter_says_which_images(store):
    kept = import_(store, "named")
    whole, begun = store.content.put(b"whole"), "sha256:" + "5" * 64
    with open(store.content.partial_path(begun), "wb") as file:
        file.write(b"begun")
    with store.content.pinned([whole, begun]):
        assert prune(store) == (None, 0), "a pull is at it"
    assert prune(store, until=("1h",)) == (None, 0)
    assert prune(store) == (None, len(b"whole") + len(b"begun"))
    assert not store.content.has(whole) and begun not in store.content.digests()
    assert len(store.content.digests()) == 3 and save.archive(store, [kept.id], []), "those of an image stay"


def test_a_parent_stays_with_its_child_and_goes_after_it(store):
    parent = import_(store)
    members = several.images(HOST)
    index = several.index_of(members)
    child = several.add(store, index, members[HOST], "child")
    with store.database.transaction() as connection:
        connection.execute("UPDATE images SET parent = ? WHERE id = ?", (parent.id, child.id))
    assert prune(store) == (None, 0)
    store.untag(["docker.io/library/child:latest"])
    records, _ = prune(store)
    assert records == [{"Untagged": child.id}, {"Deleted": child.id}, {"Deleted": parent.id}]


def test_what_is_shared_is_not_counted_as_free(store):
    import_(store, "named")
    import_(store, changes=["LABEL a=b"])
    records, freed = prune(store)
    assert len(records) == 2 and 0 < freed < 2000, "its documents alone"
