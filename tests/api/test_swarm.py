"""What a lone engine answers of swarms, managed plugins and BuildKit: dockerd's words, or that it has none of it."""

import pytest

from tests.harness.daemon import Daemon

NO_MANAGER = (
    'This node is not a swarm manager. Use "docker swarm init" or "docker swarm join" to connect this node to swarm'
    " and try again."
)
SYNTAX = 'strconv.ParseUint: parsing "x": invalid syntax'
KINDS = ("nodes", "services", "tasks", "secrets", "configs")


def asked(daemon: Daemon, method: str, path: str, body: object = None) -> tuple[int, str]:
    """Status and text of a refusal."""
    answer = daemon.request(method, path, body)
    return answer.status, answer.message


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_in_no_swarm_lists_shows_and_removes_nothing(daemon: Daemon, kind: str) -> None:
    assert asked(daemon, "GET", f"/{kind}") == (503, NO_MANAGER)
    assert asked(daemon, "GET", f"/{kind}?filters=x") == (400, "invalid filter")
    assert asked(daemon, "GET", f"/{kind}/x") == (503, NO_MANAGER)
    if kind != "tasks":
        assert asked(daemon, "DELETE", f"/{kind}/x") == (503, NO_MANAGER)


@pytest.mark.parametrize("kind", ["services", "secrets", "configs"])
def test_nothing_is_made(daemon: Daemon, kind: str) -> None:
    assert asked(daemon, "POST", f"/{kind}/create", {"Name": "x"}) == (503, NO_MANAGER)
    assert asked(daemon, "POST", f"/{kind}/create") == (400, "invalid JSON: EOF")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/swarm/update", f"invalid swarm version 'x': {SYNTAX}"),
        ("/nodes/n/update", f"invalid node version 'x': {SYNTAX}"),
        ("/services/s/update", f"invalid service version 'x': {SYNTAX}"),
        ("/secrets/s/update", "invalid secret version"),
        ("/configs/c/update", "invalid config version"),
    ],
)
def test_nothing_is_changed(daemon: Daemon, path: str, text: str) -> None:
    assert asked(daemon, "POST", f"{path}?version=1", {}) == (503, NO_MANAGER)
    assert asked(daemon, "POST", f"{path}?version=x", {}) == (400, text)
    assert asked(daemon, "POST", f"{path}?version={2**64}", {})[0] == 400
    assert asked(daemon, "POST", path, {})[0] == 400
    assert asked(daemon, "POST", f"{path}?version=x") == (400, "invalid JSON: EOF")


def test_the_swarm_itself(daemon: Daemon) -> None:
    for method, path, body in (
        ("GET", "/swarm", None),
        ("GET", "/swarm/unlockkey", None),
        ("POST", "/swarm/unlock", {"UnlockKey": "x"}),
        ("POST", "/swarm/update?version=1&rotateWorkerToken=t", {}),
    ):
        assert asked(daemon, method, path, body) == (503, NO_MANAGER)
    for query in ("", "?force=1"):
        assert asked(daemon, "POST", f"/swarm/leave{query}") == (503, "This node is not part of a swarm")
    wrong = asked(daemon, "POST", "/swarm/update?version=1&rotateManagerToken=maybe", {})
    assert wrong == (400, "invalid value for rotateManagerToken: maybe")
    for verb in ("init", "join"):
        status, text = asked(daemon, "POST", f"/swarm/{verb}", {"ListenAddr": "127.0.0.1:2377"})
        assert status == 501 and "without a swarm" in text


@pytest.mark.parametrize("kind", ["services", "tasks"])
def test_logs_of_a_swarm(daemon: Daemon, kind: str) -> None:
    assert asked(daemon, "GET", f"/{kind}/x/logs?stdout=1") == (503, NO_MANAGER)
    assert asked(daemon, "GET", f"/{kind}/x/logs") == (500, "Bad parameters: you must choose at least one stream")


def test_flags_of_services_are_read_as_go_reads_them(daemon: Daemon) -> None:
    parsing = 'strconv.ParseBool: parsing "x": invalid syntax'
    assert asked(daemon, "GET", "/services?status=x") == (400, f"invalid value for status: x: {parsing}")
    assert asked(daemon, "GET", "/v1.40/services?status=x") == (503, NO_MANAGER)
    wrong = asked(daemon, "GET", "/services/s?insertDefaults=x")
    assert wrong == (400, f"invalid value for insertDefaults: x: {parsing}")
    assert asked(daemon, "GET", "/services/s?insertDefaults=TRUE") == (503, NO_MANAGER)


def test_there_are_no_plugins(daemon: Daemon) -> None:
    for query in ("", '?filters={"enabled":["true"],"capability":["volumedriver"]}'):
        answer = daemon.request("GET", f"/plugins{query}")
        assert (answer.status, answer.json()) == (200, [])
    assert asked(daemon, "GET", '/plugins?filters={"nope":["x"]}') == (400, "invalid filter 'nope'")
    assert asked(daemon, "GET", '/plugins?filters={"enabled":["x"]}') == (400, "invalid filter 'enabled=[x]'")


@pytest.mark.parametrize("name", ["nope", "some/nope:v1"])
@pytest.mark.parametrize(
    ("method", "rest", "body"),
    [
        ("GET", "/json", None),
        ("DELETE", "?force=1", None),
        ("POST", "/enable?timeout=30", None),
        ("POST", "/disable", None),
        ("POST", "/push", None),
        ("POST", "/set", ["A=b"]),
    ],
)
def test_a_plugin_that_is_not_there(daemon: Daemon, name: str, method: str, rest: str, body: object) -> None:
    assert asked(daemon, method, f"/plugins/{name}{rest}", body) == (404, f'plugin "{name}" not found')


def test_what_a_plugin_would_need(daemon: Daemon) -> None:
    """The list of a plugin that nobody can look at is empty, as call 298 of the transcript."""
    answer = daemon.request("GET", "/plugins/privileges?remote=x")
    assert (answer.status, answer.json()) == (200, [])
    assert asked(daemon, "GET", "/plugins/privileges") == (500, "invalid reference format")
    upgrade = asked(daemon, "POST", "/plugins/nope/upgrade?remote=x", [])
    assert upgrade == (404, 'plugin "nope:latest" not found')
    assert asked(daemon, "POST", "/plugins/nope/enable") == (500, 'strconv.Atoi: parsing "": invalid syntax')
    wrong = "invalid JSON: json: cannot unmarshal object into Go value of type []string"
    assert asked(daemon, "POST", "/plugins/nope/set", {}) == (400, wrong)
    for path in ("pull?remote=x", "create?name=x"):
        status, text = asked(daemon, "POST", f"/plugins/{path}", [])
        assert status == 501 and "no managed plugins" in text
