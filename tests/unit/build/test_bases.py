"""The images that a Dockerfile names: when they are pulled, and what a pull is given."""

import pytest

from engine.daemon.build import bases
from engine.daemon.build.options import Options
from engine.daemon.images.verbs import pull
from engine.errors import NotFound
from tests.harness.parts import Parts


class Images:
    """An image store that has some names, and notes its pulls."""

    def __init__(self, *here: str) -> None:
        self.here = set(here)
        self.pulls: list[tuple] = []

    def find(self, name: str, _platform: str | None) -> str:
        """An image that is here."""
        if name not in self.here:
            raise NotFound(name)
        return name


def note_pull(images: Images, name: str, *rest: object) -> str:
    """Have the image from now on."""
    images.here.add(name)
    images.pulls.append((name, *rest))
    return name


@pytest.fixture(autouse=True)
def no_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pull, "pull", note_pull)


def gone() -> bool:
    """Whether the client has hung up."""
    return False


def find(images: Images, name: str, options: Options, fresh: set[str]) -> str:
    return bases.find(Parts(images=images), name, "", options, print, fresh, gone)


def test_only_what_is_not_here_is_pulled_and_the_pull_ends_with_the_client() -> None:
    images = Images("here")
    assert find(images, "here", Options(), set()) == "here" and not images.pulls
    auth = {"username": "u"}
    assert find(images, "r.example/x", Options(credentials={"r.example": auth}.get), set()) == "r.example/x"
    assert images.pulls == [("r.example/x", "", None, auth, print, gone, False)]
    with pytest.raises(NotFound):
        find(images, f"sha256:{'0' * 64}", Options(), set())


def test_what_is_wanted_new_is_pulled_once_in_a_build() -> None:
    images, fresh = Images("here"), set()
    for _ in range(2):
        assert find(images, "here", Options(pull=True), fresh) == "here"
    assert len(images.pulls) == 1
