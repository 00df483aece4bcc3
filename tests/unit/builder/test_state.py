"""The images that steps make: their documents, what holds them, and when they are durable."""

import contextlib
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.daemon.builder import workdir
from engine.daemon.builder.arguments import Arguments
from engine.daemon.builder.graph.keeper import EMPTY_LAYER, Keeper
from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.builder.state import Maker, State
from engine.daemon.images import image as documents
from engine.daemon.images import making, platform
from engine.daemon.images.catalogue import Catalogue
from engine.daemon.images.verbs import prune
from engine.daemon.store import builds, images
from engine.daemon.store.database import Database
from engine.daemon.tar.chunkstream import Stream
from engine.daemon.tar.writer import END
from engine.dataclass import replace
from engine.errors import Invalid
from tests.harness.parts import Parts, image, settings

pytestmark = pytest.mark.root


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Catalogue]:
    """An empty store, which waits for no disk."""
    database = Database(str(tmp_path / "engine.db"), (*images.SCHEMA, *builds.SCHEMA))
    empty = Catalogue(database, str(tmp_path), settings())
    empty.content.flush = lambda: None
    yield empty
    database.close()


def state(**more: object) -> State:
    return State(Arguments({}, {}), platform.parse("linux/arm/v7"), **more)


def unsettled(store: Catalogue) -> list[str]:
    with store.database.reading() as connection:
        return builds.all_unsettled(connection)


@contextlib.contextmanager
def building(store: Catalogue) -> Iterator[Maker]:
    """A build's maker of images."""
    with Keeper(store) as keeper, Maker(Parts(images=store), keeper) as maker:
        maker.keeper = keeper
        yield maker


def step(maker: Maker, stage: State, name: str) -> None:
    """A step with a directory as its layer."""
    part = maker.keeper.packed(Stream(workdir.tar((name,))), maker.tree(stage.image))
    maker.add(stage, f"make {name}", part)


def test_each_step_stands_on_the_one_before(store: Catalogue) -> None:
    stage = state(author="me")
    with building(store) as maker:
        step(maker, stage, "a")
        first = stage.image
        stage.config = {"Env": ["A=1"], "Cmd": [], "Labels": {}}
        maker.add(stage, "env", None)
    last = store.find(stage.identity)
    assert last.parent == first.id and last.layers == first.layers and len(last.layers) == 1
    assert last.config["config"] == {"Env": ["A=1"]}
    assert (last.config["architecture"], last.config["variant"], last.config["author"]) == ("arm", "v7", "me")
    history = [(entry["created_by"], entry.get("empty_layer", False)) for entry in last.config["history"]]
    assert history == [("make a", False), ("env", True)]
    assert last.created == last.config["history"][-1]["created"]


def test_a_layer_with_nothing_in_it_is_none(store: Catalogue) -> None:
    with Keeper(store) as keeper:
        assert keeper.packed(Stream(iter((END,))), Snapshot()) is None
    assert EMPTY_LAYER.startswith("sha256:5f70bf18a086")


def test_images_are_durable_and_let_go_of_at_the_builds_end(store: Catalogue) -> None:
    stage = state()
    with building(store) as maker:
        step(maker, stage, "a")
        step(maker, stage, "b")
        assert len(unsettled(store)) == 2 and store.held[stage.identity] == 1
    assert unsettled(store) == [] and not store.held


def test_a_build_that_fails_settles_what_it_made(store: Catalogue) -> None:
    stage = state()
    with pytest.raises(Invalid), building(store) as maker:
        step(maker, stage, "a")
        raise Invalid("a later step")
    assert unsettled(store) == [] and store.find(stage.identity)


def test_no_image_has_more_layers_than_an_overlay_takes(store: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MOST_LAYERS", 2)
    stage = state()
    with building(store) as maker:
        step(maker, stage, "a")
        step(maker, stage, "b")
        with pytest.raises(Invalid, match="max depth exceeded: 2 layers are allowed"):
            step(maker, stage, "c")
        maker.add(stage, "metadata goes on", None)


def test_a_step_of_another_image_is_taken_with_its_layer_and_its_moment(store: Catalogue) -> None:
    source = state()
    with building(store) as maker:
        step(maker, source, "a")
        base = source.image
        step(maker, source, "b")
        stage = state()
        stage.begin(base.config, base)
        maker.take(stage, "make b", source.image, 1)
    assert stage.image.layers == source.image.layers
    assert stage.image.config["history"] == source.image.config["history"]


@pytest.mark.parametrize("created", [5, {"a": 1}, None])
def test_a_moment_of_a_strangers_history_that_is_no_text_is_none(store: Catalogue, created: object) -> None:
    with building(store) as maker:
        source = image(id="x", config={"history": [{"created": created, "empty_layer": True}]})
        stage = state()
        maker.take(stage, "x", source, 0)
    assert re.match(r"\d{4}-\d\d-\d\dT", stage.image.created)


def test_a_history_that_promises_a_layer_too_many_is_refused(store: Catalogue) -> None:
    source = state()
    with building(store) as maker:
        step(maker, source, "a")
        lying = replace(source.image, config={**source.image.config, "history": [{}, {}]})
        with pytest.raises(Invalid, match="more steps with a layer than it has layers"):
            maker.take(state(), "x", lying, 1)


def test_a_stage_begins_with_a_path_and_without_triggers() -> None:
    stage = state()
    config = {"config": {"OnBuild": ["RUN x"], "Env": ["A=1", "A=2", "B"]}, "author": "a"}
    stage.begin(config)
    assert stage.triggers() == ["RUN x"] and "OnBuild" not in stage.config and not stage.author
    stage.set_path()
    assert stage.config["Env"][-1].startswith("PATH=/usr/local/sbin:")
    assert stage.environment()["A"] == "1" and "B" not in stage.environment()
    stage.set_path()
    assert len(stage.config["Env"]) == 4


def test_a_pruning_finds_no_image_of_a_build_that_nobody_holds(
    store: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even one that begins in the moment when the image has been added."""
    add_made = making.add_made
    threads = []

    def pruned(*arguments: object) -> documents.Image:
        made = add_made(*arguments)
        threads.append(threading.Thread(target=prune.prune, args=(store, {}, lambda _: ())))
        threads[-1].start()
        threads[-1].join(0.2)
        return made

    monkeypatch.setattr(making, "add_made", pruned)
    with building(store) as maker:
        stage = state()
        maker.add(stage, "env", None)
        for thread in threads:
            thread.join()
        assert store.find(stage.identity)
