"""Results that are kept between builds: found, held, let go of, and forgotten where they are not whole any more."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.daemon.builder import workdir
from engine.daemon.builder.graph import results
from engine.daemon.builder.graph.keeper import Keeper
from engine.daemon.builder.graph.results import Results
from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.builder.prune import AskedPruning, prune, records
from engine.daemon.images.catalogue import Catalogue
from engine.daemon.interrupted import forget_torn
from engine.daemon.runtime.events import Events
from engine.daemon.store import buildresults as table
from engine.daemon.store import builds, images
from engine.daemon.store.database import Database
from engine.daemon.tar.chunkstream import Stream
from tests.harness.parts import Parts, settings

pytestmark = pytest.mark.root


class Store:
    """The parts of an engine in which builds make layers."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.begin()

    def begin(self) -> None:
        """As a daemon does at its start."""
        place = self.place
        self.database = Database(str(place / "engine.db"), (*images.SCHEMA, *builds.SCHEMA))
        self.images = Catalogue(self.database, str(place), settings(data_root=str(place)))
        self.engine = Parts(
            database=self.database,
            images=self.images,
            settings=settings(data_root=str(place)),
            events=Events(),
        )

    def made(
        self, name: str, below: Snapshot | None = None, held: bool = True, parents: tuple[str, ...] = ()
    ) -> Snapshot:
        """A build with one step, which adds a directory of that name; the tree, which nobody keeps any more."""
        below = below or Snapshot()
        with Keeper(self.images) as keeper:
            for part in below.parts:
                keeper.part(part.layer.diff_id, part.descriptor)
            tree = below.above(keeper.packed(Stream(workdir.tar((name,))), below))
            cache = Results(self.database, keeper, held=True)
            cache.keep(name, [tree, below], [below], "regular", f"make {name}", parents)
            cache.close()
        return tree

    def found(self, name: str) -> tuple[Snapshot, ...] | None:
        """What a later build finds."""
        with Keeper(self.images) as keeper:
            cache = Results(self.database, keeper, held=True)
            try:
                result = cache.find(name)
                return result and result.outputs
            finally:
                cache.close()

    def layers(self) -> set[str]:
        """The directories of layers that are there."""
        return set(os.listdir(self.images.layer_root))

    def blobs(self) -> set[str]:
        """The blobs that are there."""
        return set(self.images.content.digests())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path)
    yield made
    made.database.close()


def test_a_held_result_keeps_its_layers_and_is_found(store: Store) -> None:
    tree = store.made("a")
    store.images.layers.collect()
    store.images.drop_leftovers()
    assert store.found("a") == (tree, Snapshot())
    assert store.layers() == set(tree.layers) and store.blobs() == {tree.parts[0].descriptor["digest"]}
    assert store.found("b") is None


def test_a_result_outlives_the_daemon(store: Store) -> None:
    tree = store.made("a")
    store.database.close()
    store.begin()
    assert store.found("a") == (tree, Snapshot())


def test_what_is_not_held_goes_with_its_layers(store: Store) -> None:
    """What the classic builder has made is found by the other door alone, as long as an image has the layers."""
    with Keeper(store.images) as keeper:
        tree = Snapshot().above(keeper.packed(Stream(workdir.tar(("a",))), Snapshot()))
        cache = Results(store.database, keeper, held=False)
        cache.keep("a", [tree], [], "regular", "x", ())
        assert cache.find("a") is None and cache.find("a", now=True) is not None
        assert store.found("a") is not None  # which holds it
        cache.close()
    assert store.found("a") == (tree,)
    with Keeper(store.images) as keeper:
        other = Snapshot().above(keeper.packed(Stream(workdir.tar(("b",))), Snapshot()))
        cache = Results(store.database, keeper, held=False)
        cache.keep("b", [other], [], "regular", "x", ())
        cache.close()
    assert store.found("b") is None and store.layers() == set(tree.layers)


def test_a_result_whose_blob_has_gone_is_forgotten(store: Store) -> None:
    tree = store.made("a")
    os.unlink(store.images.content.path(tree.parts[0].descriptor["digest"]))
    assert store.found("a") is None
    assert records(store.engine) == []


def test_what_a_loss_of_power_may_have_torn_is_forgotten(store: Store) -> None:
    store.made("a")
    with Keeper(store.images) as keeper:
        tree = Snapshot().above(keeper.packed(Stream(workdir.tar(("b",))), Snapshot()))
        cache = Results(store.database, keeper, held=True)
        cache.keep("b", [tree], [], "regular", "x", ())
        cache.settled()
        cache.close()
    with store.database.transaction() as connection:
        connection.execute("UPDATE build_results SET boot = 'another' WHERE boot != ''")
    forget_torn(store.database)
    assert store.found("a") is None and store.found("b") == (tree,)


def test_records_say_what_a_result_is_and_a_pruning_lets_go_of_it(store: Store) -> None:
    base = store.made("a")
    top = store.made("b", base, parents=("a",))
    store.found("b")
    found = {record.description: record for record in records(store.engine)}
    first, second = found["make a"], found["make b"]
    assert (first.type, first.uses, second.uses) == ("regular", 0, 1)
    assert second.parents == (first.id,) and not first.parents
    assert first.size == base.parts[0].layer.size + base.parts[0].descriptor["size"] > 0
    assert second.size == top.parts[1].layer.size + top.parts[1].descriptor["size"]
    none = {"parent": ("another",)}, {"mutable": ("true",)}, {"immutable": ("false",)}, {"id": ("another",)}
    assert [prune(store.engine, AskedPruning(filters=filters)) for filters in none] == [([], 0)] * 4
    assert prune(store.engine, AskedPruning(filters={"parent": (first.id,), "mutable": ("false",)})) == (
        [second.id],
        second.size,
    )
    assert store.found("b") is None and store.found("a") is not None
    assert store.layers() == set(base.layers) and len(store.blobs()) == 1
    prune(store.engine, AskedPruning())
    assert store.layers() == set() and store.blobs() == set()


def test_what_a_build_has_in_use_is_not_pruned(store: Store) -> None:
    store.made("a")
    with Keeper(store.images) as keeper:
        cache = Results(store.database, keeper, held=True)
        cache.find("a")
        assert [record.in_use for record in records(store.engine)] == [True]
        assert prune(store.engine, AskedPruning(all=True)) == ([], 0)
        cache.close()
    assert [record.in_use for record in records(store.engine)] == [False]
    assert not results._using


def test_a_result_that_is_made_anew_replaces_the_old_one(store: Store) -> None:
    store.made("a")
    with Keeper(store.images) as keeper:
        tree = Snapshot().above(keeper.packed(Stream(workdir.tar(("other",))), Snapshot()))
        cache = Results(store.database, keeper, held=True)
        cache.keep("a", [tree], [], "regular", "x", ())
        cache.close()
    assert store.found("a") == (tree,) and store.layers() == set(tree.layers)
    with store.database.reading() as connection:
        assert len(table.results(connection)) == 1


def test_an_offer_does_not_take_the_place_of_what_is_held(store: Store) -> None:
    """As when the classic builder makes a step anew (nocache) that the other door has made."""
    tree = store.made("a")
    with Keeper(store.images) as keeper:
        other = Snapshot().above(keeper.packed(Stream(workdir.tar(("other",))), Snapshot()))
        cache = Results(store.database, keeper, held=False)
        cache.keep("a", [other], [], "regular", "x", ())
        cache.close()
    assert store.found("a") == (tree, Snapshot()) and store.layers() == set(tree.layers)
