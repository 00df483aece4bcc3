"""Many clients of one store at once: whatever they do to the same images, the state is a legal one in the end."""

import pathlib
import random
import threading

from engine.daemon.images.reference import Reference
from engine.daemon.images.verbs import listing, prune, remove
from engine.errors import Conflict, NotFound
from tests.unit.images import several
from tests.unit.images.made import files_below
from tests.unit.images.several import import_
from tests.unit.images.test_platforms_here import HOST, NOBODY, OTHER


def test_clients_at_once_always_leave_a_legal_state(store):
    """Adding, tagging, removing, pruning: nobody fails in a way of its own, nothing is half there or left behind."""
    members = several.images(HOST, OTHER, shared=b"both")
    index = several.index_of(members)
    strange: list[BaseException] = []

    def look():
        while not done.wait(0.001):
            try:
                listing.images_json(store, {}, manifests=True, shared_size=True, used_by=NOBODY)
            except Exception as error:
                strange.append(error)

    def work(seed):
        chance = random.Random(seed)
        verbs = [
            lambda: several.add(store, index, members[chance.choice([HOST, OTHER])], chance.choice("ab")),
            lambda: store.tag(store.find(chance.choice("abc")), Reference.parse(chance.choice("abc"))),
            lambda: remove.remove(store, chance.choice("abc"), chance.random() < 0.5, False, NOBODY),
            lambda: remove.remove(
                store, chance.choice("ab"), True, False, NOBODY, [f"linux/{chance.choice([HOST, OTHER])}"]
            ),
            lambda: prune.prune(store, {"dangling": (chance.choice(["true", "false"]),)}, NOBODY),
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
        remove.remove(store, image.id, True, False, NOBODY)
    assert store.all() == [] and files_below(pathlib.Path(store.layer_root)) == set()
    assert files_below(pathlib.Path(store.content.path("sha256:0")).parent) == set()
