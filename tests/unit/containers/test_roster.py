"""The registry: finding, naming and forgetting containers."""

import threading

import pytest

from engine.daemon.containers.record import Container
from engine.daemon.containers.roster import Roster
from engine.errors import Conflict, Invalid, NotFound


def make(container_id: str, name: str = "", image_id: str = "sha256:1", created_ns: int = 0) -> Container:
    return Container(container_id.ljust(64, "0"), name, created_ns, "i", image_id, {}, {}, {}, "x", [], ())


@pytest.fixture
def registry():
    return Roster([make("aa1", "one", created_ns=1), make("aa2", "two", created_ns=2), make("b", "aa", created_ns=3)])


def test_a_container_is_found_by_id_name_and_unique_prefix(registry):
    for reference in ("aa1".ljust(64, "0"), "one", "/one", "aa1"):
        assert registry.find(reference).name == "one"


def test_a_name_goes_before_a_prefix_and_an_ambiguous_prefix_is_invalid(registry):
    assert registry.find("aa").name == "aa"
    with pytest.raises(Invalid, match="multiple IDs found with provided prefix: a"):
        registry.find("a")


@pytest.mark.parametrize("reference", ["nope", "", "/", "aa1".ljust(65, "0"), "aa3"])
def test_what_is_not_there_is_not_found(registry, reference):
    with pytest.raises(NotFound, match=r"^No such container: "):
        registry.find(reference)


def test_all_are_listed_newest_first(registry):
    assert [container.name for container in registry.all()] == ["aa", "two", "one"]


def test_a_removed_container_is_gone_with_its_name(registry):
    container = registry.find("one")
    registry.remove(container)
    registry.remove(container)
    assert container.id not in registry
    with pytest.raises(NotFound):
        registry.find("aa1")
    registry.reserve(make("c"), "one")
    assert registry.find("aa2").name == "two"


def test_a_reserved_name_is_taken_and_holds_its_image_before_the_container_is_there(registry):
    made = make("c", image_id="sha256:2")
    registry.reserve(made, "three")
    assert registry.using("sha256:2") == [made]
    with pytest.raises(NotFound):
        registry.find("three")
    with pytest.raises(Conflict, match=made.id):
        registry.reserve(make("d"), "three")
    registry.release(made)
    assert registry.using("sha256:2") == []
    registry.reserve(make("d"), "three")


def test_of_many_who_want_a_name_one_gets_it(registry):
    won = []

    def take(number: int) -> None:
        container = make(f"f{number:x}")
        try:
            registry.reserve(container, "wanted")
        except Conflict:
            return
        won.append(container)

    threads = [threading.Thread(target=take, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1


def test_random_names_differ(registry):
    made = [make(f"e{number:02x}") for number in range(200)]
    for container in made:
        registry.reserve(container, None)
        registry.add(container)
    assert len({container.name for container in made}) == len(made)
