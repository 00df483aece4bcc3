"""The images that a Dockerfile names: when they are pulled, and what a pull is given."""

import pytest

from engine.daemon.builder import bases
from engine.daemon.builder.dialect import BUILDKIT, CLASSIC, Dialect
from engine.daemon.builder.options import Options
from engine.daemon.images.verbs import pull
from engine.errors import NotFound
from tests.harness.parts import Parts

KNOWN = f"sha256:{'1' * 64}"


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

    def base(self, digest: str, _platform: str) -> str | None:
        """One that a build has pulled."""
        return digest if digest == KNOWN else None


def note_pull(images: Images, name: str, *rest: object, lone: bool, hidden: bool) -> str:
    """Have the image from now on, unless it is hidden."""
    if not hidden:
        images.here.add(name)
    images.pulls.append((name, *rest, lone, hidden))
    return name


@pytest.fixture(autouse=True)
def no_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pull, "pull", note_pull)


def gone() -> bool:
    """Whether the client has hung up."""
    return False


def find(images: Images, name: str, options: Options, fresh: bases.Fresh, dialect: Dialect = CLASSIC) -> str:
    return bases.find(Parts(images=images), name, "", options, print, fresh, gone, dialect)


def test_only_what_is_not_here_is_pulled_and_the_pull_ends_with_the_client() -> None:
    images = Images("here")
    assert find(images, "here", Options(), {}) == "here" and not images.pulls
    auth = {"username": "u"}
    assert find(images, "r.example/x", Options(credentials={"r.example": auth}.get), {}) == "r.example/x"
    assert images.pulls == [("r.example/x", "", None, auth, print, gone, False, False)]
    with pytest.raises(NotFound):
        find(images, f"sha256:{'0' * 64}", Options(), {})


def test_what_is_wanted_new_is_pulled_once_in_a_build() -> None:
    images, fresh = Images("here"), {}
    for _ in range(2):
        assert find(images, "here", Options(pull=True), fresh) == "here"
    assert len(images.pulls) == 1


def test_a_hidden_base_is_known_to_its_build_and_by_its_digest() -> None:
    """By its name the registry says anew what it is."""
    images, fresh = Images(), {}
    for _ in range(2):
        assert find(images, "r.example/x", Options(), fresh, BUILDKIT) == "r.example/x"
    assert [each[-1] for each in images.pulls] == [True]
    find(images, "r.example/x", Options(), {}, BUILDKIT)
    assert len(images.pulls) == 2
    assert find(images, f"r.example/x@{KNOWN}", Options(), {}, BUILDKIT) == KNOWN and len(images.pulls) == 2
    find(images, f"r.example/x@{KNOWN}", Options(), {})
    find(images, f"r.example/x@sha256:{'2' * 64}", Options(), {}, BUILDKIT)
    assert len(images.pulls) == 4
