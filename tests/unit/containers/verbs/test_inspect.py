"""Inspect: the same keys in the same order, and the same kinds of values, as a current dockerd shows."""

from engine.daemon.containers import config
from engine.daemon.containers.verbs.create import create
from engine.daemon.containers.verbs.inspect import inspect
from tests.unit.containers import recorded
from tests.unit.containers.fakes import make_engine

CREATED, WITH_SIZES, NO_COMMAND_FOUND = 112, 113, 98
# Meant: shown from create on, as the files are there from create on; and the log is this engine's own.
DIFFERENT = {"Id", "Created", "Name", "ResolvConfPath", "HostnamePath", "HostsPath", "LogPath"}
COMMAND = ["sh", "-c", "echo out; echo err >&2"]


def kinds(value: object) -> object:
    """The shape of a JSON value: keys and types; a list by its first item."""
    if isinstance(value, dict):
        return {key: kinds(item) for key, item in value.items()}
    if isinstance(value, list):
        return [kinds(item) for item in value[:1]]
    return type(value)


def test_a_created_container_is_shown_as_dockerd_shows_it(tmp_path):
    engine = make_engine(tmp_path)
    container, _ = create(engine, "rec-one", {"Image": "busybox:latest", "Cmd": COMMAND}, None)
    shown, expected = inspect(engine, container), recorded.answer(CREATED)
    capped = {"Type": "json-file", "Config": {"max-size": "20m", "max-file": "5"}}
    expected["HostConfig"].update(LogConfig=capped, CgroupnsMode="private")
    assert list(shown) == list(expected)
    assert kinds(shown) == kinds(expected)
    for key in ("HostConfig", "Config", "NetworkSettings", "State", "Storage"):
        assert list(shown[key]) == list(expected[key])
    expected["Config"]["Hostname"] = container.id[:12]
    assert {key: value for key, value in shown.items() if key not in DIFFERENT} == {
        key: value for key, value in expected.items() if key not in DIFFERENT
    }


def test_sizes_are_shown_when_asked_for(tmp_path):
    engine = make_engine(tmp_path)
    container, _ = create(engine, None, {"Image": "busybox", "Cmd": COMMAND}, None)
    upper, layer = tmp_path / "containers" / container.id / "upper", tmp_path / "layers" / "1"
    upper.mkdir()
    layer.mkdir(parents=True)
    (upper / "one").write_bytes(b"x" * 10_000)
    (upper / "two").hardlink_to(upper / "one")
    (layer / "three").write_bytes(b"x" * 100_000)
    shown = inspect(engine, container, size=True)
    assert list(shown) == list(recorded.answer(WITH_SIZES))
    assert 10_000 <= shown["SizeRw"] < 20_000
    assert shown["SizeRw"] + 100_000 <= shown["SizeRootFs"] < shown["SizeRw"] + 120_000


def test_a_container_that_ran_shows_when(tmp_path):
    engine = make_engine(tmp_path)
    container, _ = create(engine, None, {"Image": "busybox", "Cmd": COMMAND}, None)
    with container.changed:
        container.state.status = "exited"
        container.state.exit_code = 7
        container.state.started_ns = 1_795_153_111_445_140_900
        container.state.finished_ns = 1_795_153_112_000_000_000
    state = inspect(engine, container)["State"]
    assert (state["Status"], state["Running"], state["ExitCode"]) == ("exited", False, 7)
    assert (state["StartedAt"], state["FinishedAt"]) == ("2026-11-20T05:38:31.4451409Z", "2026-11-20T05:38:32Z")
    assert kinds(state) == kinds(recorded.answer(NO_COMMAND_FOUND)["State"])


def test_every_field_of_the_definition_has_its_default():
    assert set(config.CONFIG) == recorded.definition("ContainerConfig")
    assert set(config.HOST_CONFIG) == recorded.definition("HostConfig")
    assert set(config.ENDPOINT) == recorded.definition("EndpointSettings")


def test_optional_fields_are_shown_when_there_is_something_in_them(tmp_path):
    engine = make_engine(tmp_path)
    body = {
        "Image": "busybox",
        "StopTimeout": 0,
        "Healthcheck": {},
        "Shell": [],
        "NetworkDisabled": False,
        "HostConfig": {"Init": False, "Annotations": {"a": "b"}, "Ulimits": [{"Name": "nofile", "Soft": 1, "Hard": 2}]},
    }
    container, _ = create(engine, None, body, None)
    shown = inspect(engine, container)
    assert shown["Config"]["StopTimeout"] == 0
    assert shown["Config"]["Healthcheck"] == {}
    assert not {"NetworkDisabled", "Shell"} & shown["Config"].keys()
    assert shown["HostConfig"]["Init"] is False
    assert shown["HostConfig"]["Annotations"] == {"a": "b"}
    assert shown["HostConfig"]["Ulimits"] == [{"Name": "nofile", "Hard": 2, "Soft": 1}]
