"""Renaming: the new name is there and the old one is free, at once and after the next daemon."""

import threading
from collections.abc import Callable

import pytest

from tests.harness.daemon import Daemon
from tests.harness.http import Answer

pytestmark = pytest.mark.usefixtures("busybox")

RULE = "only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed"


def rename(daemon: Daemon, container: str, name: str) -> Answer:
    """The answer to a rename; its 400 is not in the definition."""
    return daemon.request("POST", f"/containers/{container}/rename?name={name}", checked=False)


def test_a_container_has_its_new_name_and_the_old_one_is_free(daemon: Daemon, container: Callable[..., str]) -> None:
    """With a slash before it or without; inspect, the listing and the registry agree."""
    one = container(name="rename-a")
    for name in ("rename-b", "/rename-c"):
        assert rename(daemon, one, name).status == 204
    assert daemon.inspect("rename-c")["Name"] == "/rename-c" == daemon.inspect(one)["Name"]
    listed = daemon.request("GET", "/containers/json?all=1").json()
    assert next(each["Names"] for each in listed if each["Id"] == one) == ["/rename-c"]
    for name in ("rename-a", "rename-b"):
        assert daemon.request("GET", f"/containers/{name}/json").status == 404
    assert daemon.inspect(container(name="rename-a"))["Name"] == "/rename-a"


@pytest.mark.parametrize(
    ("name", "status", "text"),
    [
        ("%20%2F", 400, "Neither old nor new names may be empty"),
        ("", 400, "Neither old nor new names may be empty"),
        ("rename-me", 400, "Renaming a container with the same name as its current name"),
        ("/rename-me", 400, "Renaming a container with the same name as its current name"),
        ("..", 400, f"Error when allocating new name: Invalid container name (/..), {RULE}"),
        ("a%2Fb", 400, f"Error when allocating new name: Invalid container name (/a/b), {RULE}"),
        ("a", 400, f"Error when allocating new name: Invalid container name (/a), {RULE}"),
        ("/a", 400, f"Error when allocating new name: Invalid container name (/a), {RULE}"),
        ("//ab", 400, f"Error when allocating new name: Invalid container name (//ab), {RULE}"),
    ],
)
def test_what_is_no_new_name_is_refused(
    daemon: Daemon, container: Callable[..., str], name: str, status: int, text: str
) -> None:
    """The transcript, calls 153 and 154, and dockerd 20.10."""
    one = container(name="rename-me")
    answer = rename(daemon, one, name)
    assert (answer.status, answer.message) == (status, text)
    assert daemon.inspect(one)["Name"] == "/rename-me"


def test_a_name_that_is_none_is_refused_before_the_container_is_looked_for(daemon: Daemon) -> None:
    """As by dockerd; one that is only wrong is refused after that."""
    assert [rename(daemon, "nope", name).status for name in ("", "%2F", "a")] == [400, 400, 404]


def test_a_name_in_use_is_refused(daemon: Daemon, container: Callable[..., str]) -> None:
    """In dockerd's words; nothing has changed."""
    one, two = container(name="rename-one"), container(name="rename-two")
    answer = rename(daemon, one, "rename-two")
    assert (answer.status, answer.message) == (
        409,
        'Error when allocating new name: Conflict. The container name "/rename-two" is already in use by container '
        f'"{two}". You have to remove (or rename) that container to be able to reuse that name.',
    )
    assert daemon.inspect("rename-one")["Id"] == one and daemon.inspect("rename-two")["Id"] == two


def test_what_runs_is_renamed_too(daemon: Daemon, container: Callable[..., str]) -> None:
    """And goes on."""
    one = container("sleep", "60")
    daemon.begin(one)
    pid = daemon.inspect(one)["State"]["Pid"]
    assert rename(daemon, one, "renamed-running").status == 204
    assert daemon.inspect("renamed-running")["State"]["Pid"] == pid


def test_of_many_who_want_one_name_one_gets_it(daemon: Daemon, container: Callable[..., str]) -> None:
    """All others are told who."""
    made = [container() for _ in range(8)]
    answers: dict[str, int] = {}
    threads = [
        threading.Thread(target=lambda one=one: answers.update({one: rename(daemon, one, "wanted").status}))
        for one in made
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(answers.values()) == [204] + [409] * 7
    assert daemon.inspect("wanted")["Id"] == next(one for one, status in answers.items() if status == 204)


def test_the_next_daemon_knows_the_new_name(own_daemon: Daemon) -> None:
    """Of one that runs and of one that does not, after a crash."""
    daemon = own_daemon
    running, created = daemon.create("sleep", "60", name="old-running"), daemon.create(name="old-created")
    daemon.begin(running)
    assert rename(daemon, running, "new-running").status == rename(daemon, created, "old-running").status == 204
    daemon.kill9()
    daemon.start()
    assert daemon.inspect("new-running")["Id"] == running and daemon.inspect("old-running")["Id"] == created
    assert daemon.request("GET", "/containers/old-created/json").status == 404
    assert daemon.inspect(running)["State"]["Running"]
