"""POST /containers/create: names, ids, what is refused and in which words, what the image adds."""

import re
from collections.abc import Callable
from urllib.parse import quote

import pytest

from tests.api import building
from tests.harness.daemon import Daemon

pytestmark = pytest.mark.usefixtures("busybox")

GOOD_NAMES = ("ab", "a.b", "a_b-c", "0z", "A" * 200)
BAD_NAMES = ("-bad", "a b", "a/b", "a", "ä", ".a", "a\n")
NO_CONFIG = "config cannot be empty in order to create a container"
# (HostConfig or Config fields, status, text): see the transcript, calls 28 to 91.
UNBUILT = [
    ({"Cgroup": "some"}, "Cgroup"),
]


def post(daemon: Daemon, body: dict, name: str = "") -> tuple[int, object]:
    """Create and answer (status, JSON)."""
    answer = daemon.request("POST", "/containers/create" + (f"?name={quote(name, safe='')}" if name else ""), body)
    return answer.status, answer.json()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "invalid JSON: EOF"),
        (b" ", "invalid JSON: EOF"),
        (b"null", NO_CONFIG),
        (b"{}", NO_CONFIG),
        (b'{"HostConfig": {"NetworkMode": "none"}}', NO_CONFIG),
        (b'{"HostConfig": {}, "NetworkingConfig": {}}', NO_CONFIG),
    ],
)
def test_an_empty_body_and_one_without_config_are_refused(daemon: Daemon, body: bytes, words: str) -> None:
    """In docker's words; the first is call 22 of the transcript."""
    answer = daemon.request("POST", "/containers/create", body, {"Content-Type": "application/json"})
    assert (answer.status, answer.message) == (400, words)


def test_a_body_that_is_not_sent_is_an_empty_one(daemon: Daemon) -> None:
    """Without a Content-Type, and without a Content-Length."""
    with daemon.connection() as connection:
        connection.send(b"POST /containers/create HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = connection.read_answer()
    assert (answer.status, answer.message) == (400, "invalid JSON: EOF")


def test_an_id_is_64_hex_digits(daemon: Daemon, container: Callable[..., str]) -> None:
    """And no two are the same."""
    first, second = container("true"), container("true")
    assert re.fullmatch("[0-9a-f]{64}", first) and first != second


def test_a_container_without_a_name_gets_one(daemon: Daemon, container: Callable[..., str]) -> None:
    """Two words, as docker's."""
    assert re.fullmatch("/[a-z]+_[a-z]+[0-9]?", daemon.inspect(container("true"))["Name"])


@pytest.mark.parametrize("name", GOOD_NAMES)
def test_a_good_name_is_taken(daemon: Daemon, container: Callable[..., str], name: str) -> None:
    """With or without the slash in front, in every path."""
    identifier = container("true", name=name)
    assert daemon.inspect(name)["Id"] == identifier
    assert daemon.inspect(name)["Name"] == f"/{name}"


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_bad_name_is_refused(daemon: Daemon, name: str) -> None:
    """With docker's words."""
    status, body = post(daemon, {"Image": "busybox"}, name)
    assert status == 400
    assert body["message"] == f"Invalid container name ({name}), only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed"


def test_a_name_that_is_taken_is_a_conflict(daemon: Daemon, container: Callable[..., str]) -> None:
    """It names the owner; when the owner is gone the name is free."""
    owner = container("true", name="taken")
    status, body = post(daemon, {"Image": "busybox"}, "taken")
    assert status == 409
    assert body["message"] == (
        f'Conflict. The container name "/taken" is already in use by container "{owner}". '
        "You have to remove (or rename) that container to be able to reuse that name."
    )
    daemon.remove(owner)
    container("true", name="taken")


def test_a_container_is_found_by_any_unique_prefix(daemon: Daemon, container: Callable[..., str]) -> None:
    """Of its id; and by its whole id and its name."""
    identifier = container("true", name="findme")
    for key in (identifier, identifier[:12], identifier[:20], "findme"):
        assert daemon.inspect(key)["Id"] == identifier


def test_an_ambiguous_prefix_is_an_error(daemon: Daemon, container: Callable[..., str]) -> None:
    """Seventeen ids share a first digit somewhere."""
    made = [container("true") for _ in range(17)]
    first = next(digit for digit in "0123456789abcdef" if sum(one.startswith(digit) for one in made) > 1)
    answer = daemon.request("GET", f"/containers/{first}/json")
    assert answer.status in (400, 404, 500)
    assert first in answer.message


def test_a_name_goes_before_a_prefix(daemon: Daemon, container: Callable[..., str]) -> None:
    """A container may be called like the start of another's id."""
    other = container("true")
    named = container("true", name=other[:12])
    assert daemon.inspect(other[:12])["Id"] == named


def test_the_image_fills_in_what_is_missing(daemon: Daemon, container: Callable[..., str]) -> None:
    """Cmd and Env come from the image's config."""
    body = daemon.inspect(container(Env=["A=b"]))
    assert body["Config"]["Cmd"] == ["sh"]
    assert (body["Path"], body["Args"]) == ("sh", [])
    assert "A=b" in body["Config"]["Env"] and any(entry.startswith("PATH=") for entry in body["Config"]["Env"])


def test_an_entrypoint_of_its_own_drops_the_images_command(daemon: Daemon, container: Callable[..., str]) -> None:
    """A new entrypoint does not get the old arguments, with docker too."""
    body = daemon.inspect(container(Entrypoint=["echo"]))
    assert (body["Path"], body["Args"]) == ("echo", [])
    body = daemon.inspect(container("a", "b", Entrypoint=["echo"]))
    assert (body["Path"], body["Args"]) == ("echo", ["a", "b"])


def test_a_variable_without_a_value_is_removed(daemon: Daemon) -> None:
    """`PATH` alone takes the image's PATH away... and the process has none of its own."""
    assert "A=" not in daemon.shell("env", Env=["A"])


@pytest.mark.parametrize(("fields", "name"), UNBUILT, ids=[name for _, name in UNBUILT])
def test_a_field_that_is_not_built_is_refused_in_words(daemon: Daemon, fields: dict, name: str) -> None:
    """Never swallowed: 501 naming the field."""
    status, body = post(daemon, {"Image": "busybox", "HostConfig": fields})
    assert status == 501, body
    assert name in body["message"]


def test_dockers_own_errors_come_before_what_is_not_built(daemon: Daemon) -> None:
    """400 in docker's words even for a field that the engine does not build."""
    status, body = post(daemon, {"Image": "busybox", "HostConfig": {"RestartPolicy": {"Name": "sometimes"}}})
    assert status == 400
    assert body["message"].startswith("invalid restart policy: unknown policy 'sometimes'")


def test_a_platform_that_the_image_does_not_have(daemon: Daemon) -> None:
    """?platform= is compared with the image."""
    answer = daemon.request("POST", "/containers/create?platform=linux/s390x", {"Image": "busybox"})
    assert answer.status == 404
    answer = daemon.request("POST", "/containers/create?platform=nonsense/x/y/z", {"Image": "busybox"})
    assert answer.status == 400


def test_labels_come_back(daemon: Daemon, container: Callable[..., str]) -> None:
    """Any text."""
    labels = {"a": "b", "ü": "ö=ä", "empty": ""}
    assert daemon.inspect(container("true", Labels=labels))["Config"]["Labels"] == labels


def test_a_failed_create_leaves_nothing(daemon: Daemon) -> None:
    """Neither a container nor a directory."""
    before = building.containers(daemon)
    assert post(daemon, {"Image": "busybox", "WorkingDir": "rel"}, "ghost")[0] == 400
    assert post(daemon, {"Image": "nope"}, "ghost")[0] == 404
    assert building.containers(daemon) == before
    assert daemon.request("GET", "/containers/ghost/json").status == 404


@pytest.mark.parametrize("given", ["8080", "08080"])
def test_a_port_without_a_protocol_stays_so_for_clients_before_1_52(
    daemon: Daemon, container: Callable[..., str], given: str
) -> None:
    """They compare what inspect shows with what they have asked for; newer ones and images have the full form."""
    one = container("true", ExposedPorts={given: {}, "53/UDP": {}})

    def shown(version: str) -> dict:
        return daemon.request("GET", f"{version}/containers/{one}/json").json()["Config"]["ExposedPorts"]

    assert shown("/v1.24") == shown("/v1.51") == {"8080": {}, "53/udp": {}}
    assert shown("") == shown("/v1.52") == {"8080/tcp": {}, "53/udp": {}}
    image = daemon.request("POST", f"/commit?container={one}").json()["Id"]
    found = daemon.request("GET", f"/v1.41/images/{image}/json").json()["Config"]["ExposedPorts"]
    assert found.keys() == {"8080/tcp", "53/udp"}
    assert daemon.request("DELETE", f"/images/{image}").status == 200


def test_a_port_without_a_protocol_is_published_and_listed(daemon: Daemon, container: Callable[..., str]) -> None:
    host = {"NetworkMode": "bridge", "PublishAllPorts": True}
    one = container("sleep", "1000", ExposedPorts={"8080": {}}, HostConfig=host)
    daemon.begin(one)
    assert daemon.inspect(one)["NetworkSettings"]["Ports"].keys() == {"8080/tcp"}
    (listed,) = daemon.request("GET", f'/containers/json?filters={quote(f"""{{"id":["{one}"]}}""")}').json()
    assert {(each["PrivatePort"], each["Type"]) for each in listed["Ports"]} == {(8080, "tcp")}


def test_the_working_directory_is_there_from_create_on(daemon: Daemon, container: Callable[..., str]) -> None:
    """In the container's own files: a copy finds it, and a change tells of it; what the image has is not a change."""
    one = container("pwd", WorkingDir="/made/for/it")
    shown = daemon.request("HEAD", f"/containers/{one}/archive?path=/made/for/it")
    assert shown.status == 200
    assert {"Path": "/made/for/it", "Kind": 1} in daemon.request("GET", f"/containers/{one}/changes").json()
    daemon.begin(one)
    assert daemon.wait(one) == 0 and daemon.logs(one)[8:] == b"/made/for/it\n"
    for there in ("/etc", "/", "/etc/../etc/"):
        other = container("true", WorkingDir=there)
        assert daemon.request("GET", f"/containers/{other}/changes").json() is None


def test_a_working_directory_that_cannot_be_is_refused_at_create(daemon: Daemon) -> None:
    body = {"Image": "busybox", "Cmd": ["true"], "WorkingDir": "/bin/busybox"}
    answer = daemon.request("POST", "/containers/create?name=nowhere", body)
    assert (answer.status, answer.message) == (500, "Cannot mkdir: /bin/busybox is not a directory")
    assert daemon.request("GET", "/containers/nowhere/json").status == 404
