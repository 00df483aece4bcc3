"""Tags, steps and pruning in a store: what goes, what is told, and that clients at once always leave a legal state."""

import io
import pathlib
import random
import threading
import types

import pytest

from engine.daemon.images import history, tagging
from engine.daemon.images.reference import Reference
from engine.errors import Conflict, Invalid, NotFound, SystemFailure
from tests.unit.images import several
from tests.unit.images.made import archive, files_below, member
from tests.unit.images.test_platforms_here import HOST, NOBODY, OTHER, using


@pytest.fixture
def told(store):
    """Every event as (action, name or bytes), as it is told."""
    events = []
    store._publish = lambda kind, action, actor, attributes: events.append((action, [*attributes.values()][-1]))
    return events


def import_(store, repo="", contents=b"x", changes=()):
    stream = io.BytesIO(archive(member("file", contents)))
    return store.import_rootfs(stream, repo, "", "", changes, None, lambda line: None)


def container(image, asked):
    snapshot = types.SimpleNamespace(running=False)
    return types.SimpleNamespace(
        id="c" * 64, image=asked, image_id=image.id, layers=image.layers, mounts=(), snapshot=lambda: snapshot
    )


def prune(store, used_by=NOBODY, **filters):
    return store.prune(filters, used_by)


def test_a_tag_is_a_name_more_and_leaves_another_image_without(store, told):
    one, two = import_(store, "one"), import_(store, "two", b"y")
    assert tagging.tag(store, "one", "two", "").id == one.id
    assert store.find("two").id == one.id and store.find(two.id).names == ()
    tagging.tag(store, two.id, "localhost:5000/a/b", "v1")
    assert store.find("localhost:5000/a/b:v1").id == two.id
    assert told[-2:] == [("tag", "two:latest"), ("tag", "localhost:5000/a/b:v1")]
    tagging.tag(store, "one", "one", "latest")
    assert store.find("one").repo_tags == ("one:latest", "two:latest")


@pytest.mark.parametrize(
    ("repo", "name", "words"),
    [
        ("BAD", "v1", r"repository name \(library/BAD\) must be lowercase"),
        ("a", "b@d", "invalid tag format"),
        ("", "", "invalid reference format"),
        ("sha256", "x", "ambiguous tag"),
        ("a@sha256:" + "0" * 64, "", "digest reference"),
        ("a" * 64, "", "64-byte hexadecimal"),
        ("../a", "", "invalid reference format"),
        ("a\n", "", "invalid reference format"),
        ("x" * 256, "", "255"),
        ("a", "x" * 129, "invalid tag format"),
    ],
)
def test_a_bad_name_is_refused_before_the_image_is_looked_for(store, repo, name, words):
    with pytest.raises(Invalid, match=words):
        tagging.tag(store, "nope", repo, name)


def test_an_image_that_has_gone_meanwhile_gets_no_name(store):
    image = import_(store, "one")
    store.remove("one", False, False, NOBODY)
    with pytest.raises(NotFound):
        store.tag(image, Reference.parse("two"))


def steps(image, *entries, sizes=(5, 7), parent="", **more):
    return types.SimpleNamespace(
        id=image, config={"history": list(entries)}, layer_sizes=sizes, parent=parent, repo_tags=("a:1",), **more
    )


def test_the_steps_are_shown_newest_first_with_the_sizes_of_their_layers():
    store = types.SimpleNamespace(find=lambda name: steps("parent", parent=""))
    image = steps(
        "image",
        {"created": "1970-01-01T00:00:02Z", "created_by": "one", "comment": "c"},
        {"created": "soon", "created_by": 5, "empty_layer": True},
        "no step",
        {"created_by": "three"},
        parent="parent",
    )
    three, two, one = history.history(store, image)
    assert [step["Size"] for step in (one, two, three)] == [5, 0, 7]
    assert one == {"Comment": "c", "Created": 2, "CreatedBy": "one", "Id": "<missing>", "Size": 5, "Tags": None}
    assert (two["Id"], two["Tags"], two["CreatedBy"], two["Created"]) == ("parent", ["a:1"], "", 0)
    assert (three["Id"], three["Tags"]) == ("image", ["a:1"])


def test_a_history_of_more_layers_than_there_are_is_told():
    with pytest.raises(SystemFailure, match="unable to find the size of the layer"):
        history.history(None, steps("image", {}, {}, {}))
    assert history.history(None, types.SimpleNamespace(config={"history": "x"}, layer_sizes=())) == []


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
    assert store.find(used.id).repo_tags == ("b:latest",), "one name stays for who was made by the id"


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


def test_clients_at_once_always_leave_a_legal_state(store):
    """Adding, tagging, removing, pruning: nobody fails in a way of its own, nothing is half there or left behind."""
    members = several.images(HOST, OTHER, shared=b"both")
    index = several.index_of(members)
    strange: list[BaseException] = []

    def look():
        while not done.wait(0.001):
            try:
                store.images_json({}, manifests=True, shared_size=True, used_by=NOBODY)
            except Exception as error:
                strange.append(error)

    def work(seed):
        chance = random.Random(seed)
        verbs = [
            lambda: several.add(store, index, members[chance.choice([HOST, OTHER])], chance.choice("ab")),
            lambda: store.tag(store.find(chance.choice("abc")), Reference.parse(chance.choice("abc"))),
            lambda: store.remove(chance.choice("abc"), chance.random() < 0.5, False, NOBODY),
            lambda: store.remove(chance.choice("ab"), True, False, NOBODY, [f"linux/{chance.choice([HOST, OTHER])}"]),
            lambda: prune(store, dangling=(chance.choice(["true", "false"]),)),
            lambda: import_(store, chance.choice("bc"), chance.choice([b"1", b"2"])),
        ]
        for _ in range(25):
            try:
                chance.choice(verbs)()
            except (NotFound, Conflict):
                pass
            except Exception as error:
                strange.append(error)

    done = threading.Event()
    looker = threading.Thread(target=look)
    looker.start()
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    done.set()
    looker.join(60)
    assert not any(thread.is_alive() for thread in [*threads, looker]) and strange == []
    for image in store.all():
        for one in store.platforms(image):
            assert all(pathlib.Path(store.layer_root, layer, "file").parent.is_dir() for layer in one.layers)
            assert store.content.has(one.manifest)
        assert all(store.find(name).id == image.id for name in image.names)
    for image in store.all():
        store.remove(image.id, True, False, NOBODY)
    assert store.all() == [] and files_below(pathlib.Path(store.layer_root)) == set()
    assert files_below(pathlib.Path(store.content.path("sha256:0")).parent) == set()
