"""Finding base images: side by side, each once, and no longer than somebody waits for them."""

import threading
import time
from collections.abc import Callable

import pytest

from engine.daemon.builder import bases
from engine.daemon.builder.graph.work import Caller
from engine.daemon.builder.options import Options
from engine.daemon.buildkit.basefinding import Bases
from engine.daemon.buildkit.progress import Progress
from engine.daemon.buildkit.provenance.captured import Captured
from engine.daemon.images.image import Image
from engine.errors import NotFound, Unavailable
from tests.harness.parts import Parts, image

PATIENCE = 10.0


class Store:
    """A store that has nothing, so that all is pulled."""

    def find(self, name: str, _platform: str | None = None) -> Image:
        """It is not here."""
        raise NotFound(name)


class Keeper:
    """Keeps nothing."""

    def hold(self, _image: Image) -> None:
        """Nothing."""


Pull = Callable[[str, Callable[[], bool]], Image]


@pytest.fixture
def pulling(monkeypatch: pytest.MonkeyPatch) -> Callable[[Pull], Bases]:
    """A `Bases` whose images are pulled by a function of their names, and of what says that nobody waits."""

    def made(pull: Pull) -> Bases:
        def find(_engine: Parts, name: str, _platform: str, _options: Options, _line: object, *rest: object) -> Image:
            return pull(name, rest[1])

        monkeypatch.setattr(bases, "find", find)
        caller = Caller(lambda _fd: None, lambda: None, lambda: False)
        return Bases(Parts(images=Store()), Keeper(), Options(), Progress("ref"), caller, Captured(0))

    return made


def test_images_are_pulled_side_by_side_and_once(pulling: Callable[[Pull], Bases]) -> None:
    together, pulled = threading.Barrier(3), []

    def pull(name: str, _gone: Callable[[], bool]) -> Image:
        pulled.append(name)
        together.wait(PATIENCE)
        return image(id=f"sha256:{name}")

    with pulling(pull) as found:
        found.begin({"a": "", "b": "linux/arm64", "c": ""})
        found.begin({"a": ""})
        titles = [found.find(*each).tree.node.operation.title for each in (("a", ""), ("b", "linux/arm64"), ("a", ""))]
    assert sorted(pulled) == ["a", "b", "c"]
    assert titles[0] == titles[2] == "docker.io/library/a:latest@sha256:a"


def test_a_failure_is_that_of_whoever_asks_for_the_image(pulling: Callable[[Pull], Bases]) -> None:
    def pull(name: str, _gone: Callable[[], bool]) -> Image:
        if name == "b":
            raise Unavailable("no registry")
        return image(id="sha256:a")

    with pulling(pull) as found:
        found.begin({"a": "", "b": ""})
        assert found.find("a", "").tree is not None
        for _ in range(2):
            with pytest.raises(Unavailable, match="no registry"):
                found.find("b", "")


def test_an_error_ends_the_pulls_that_still_run(pulling: Callable[[Pull], Bases]) -> None:
    def pull(name: str, gone: Callable[[], bool]) -> Image:
        deadline = time.monotonic() + PATIENCE
        while name == "slow" and not gone():
            assert time.monotonic() < deadline
            time.sleep(0.005)
        raise Unavailable(name)

    begun = time.monotonic()
    with pytest.raises(Unavailable, match="quick"), pulling(pull) as found:
        found.begin({"slow": "", "quick": ""})
        found.find("quick", "")
    assert time.monotonic() - begun < PATIENCE / 2
