"""Calling plugins: what is sent and comes back, and what plugins do that are broken or hostile."""

import socket
import threading
import time

import pytest

from engine.daemon.plugins import activation
from engine.daemon.plugins.activation import VOLUMES, Plugins
from engine.errors import NotFound, SystemFailure
from engine.plugins import call
from engine.plugins.discovery import Address
from tests.harness.plugin import Plugin


@pytest.fixture
def plugin(tmp_path):
    """One that is called `one` and knows what a test gives it."""
    with Plugin("VolumeDriver").serving(tmp_path / "one.sock") as made:
        yield made


def asked(tmp_path, method, arguments=None, **how):
    return call.call(Address("unix", str(tmp_path / "one.sock")), method, arguments, **{"patience": 0, **how})


def test_a_call_is_a_post_of_json(plugin, tmp_path):
    plugin.methods["A.B"] = lambda given: {"Back": given["Name"], "Err": ""}
    assert asked(tmp_path, "A.B", {"Name": "ü"}) == {"Back": "ü", "Err": ""}
    assert plugin.calls == [("A.B", {"Name": "ü"})]


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        ({"Err": "it said"}, SystemFailure, r"^it said$"),
        ((500, b'{"Err": "it said"}'), SystemFailure, r"^A\.B: it said$"),
        ((500, b"plain"), SystemFailure, r"^A\.B: plain$"),
        ((404, b"gone"), call.Missing, r"^A\.B: gone$"),
        ((200, b"[]"), call.Unreachable, r"^A\.B: the plugin's answer is no object of JSON$"),
        ((200, b"[" * 100000), call.Unreachable, r"no object of JSON$"),
        ((200, b"\xff\xfe"), call.Unreachable, r"no object of JSON$"),
        ((200, b"x" * (5 << 20)), call.Unreachable, r"the answer is larger than "),
        ((500, b"x" * 100000), SystemFailure, r"^A\.B: x{1000}$"),
    ],
)
def test_what_is_no_answer_is_told(plugin, tmp_path, answer, kind, words):
    plugin.methods["A.B"] = lambda _: answer
    with pytest.raises(kind, match=words):
        asked(tmp_path, "A.B", {})


def test_a_plugin_that_hangs_does_not_outlast_the_time(plugin, tmp_path):
    go = threading.Event()
    plugin.methods["A.B"] = lambda _: (go.wait(30), {})[1]
    with pytest.raises(call.Unreachable, match=r"context deadline exceeded$"):
        asked(tmp_path, "A.B", {}, seconds=0.2)
    go.set()


def test_a_plugin_that_comes_late_is_waited_for(tmp_path):
    path = tmp_path / "one.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))  # nobody listens yet
    late = Plugin("VolumeDriver")
    found = []
    thread = threading.Thread(target=lambda: found.append(asked(tmp_path, "Plugin.Activate", patience=20)))
    thread.start()
    time.sleep(0.1)
    path.unlink()
    with late.serving(path):
        thread.join(20)
    assert found == [{"Implements": ["VolumeDriver"]}]


def test_a_plugin_is_activated_once_and_found_by_what_it_implements(plugin, tmp_path):
    plugins = Plugins((str(tmp_path),))
    assert plugins.used(VOLUMES) == []
    for _ in range(2):
        assert plugins.get("one", VOLUMES).implements == (VOLUMES,)
    assert plugin.asked("Plugin.Activate") == [{}]
    assert ([each.name for each in plugins.all(VOLUMES)], plugins.all("authz")) == (["one"], [])
    assert (plugins.used(VOLUMES), plugins.used("authz")) == (["one"], [])
    with pytest.raises(NotFound, match=r'^plugin "two" not found$'):
        plugins.get("two", VOLUMES)
    words = "legacy plugin: Plugin does not implement the requested driver:"
    with pytest.raises(SystemFailure) as told:
        plugins.get("one", "authz")
    assert str(told.value) == words + ' plugin="one", requested implementation="authz"'


def test_one_that_has_gone_is_waited_for_once(tmp_path, monkeypatch):
    """And again after it was back; one that was never there each time."""
    slept, now = [], [0.0]

    def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(activation.time, "sleep", sleep)
    monkeypatch.setattr(activation.time, "monotonic", lambda: now[0])
    plugins = Plugins((str(tmp_path),))
    one = Plugin("VolumeDriver")

    def waits(name):
        slept.clear()
        with pytest.raises(NotFound):
            plugins.get(name, VOLUMES)
        return sum(slept) > 1

    for _ in range(2):
        with one.serving(tmp_path / "one.sock"):
            plugins.get("one", VOLUMES)
        assert [waits("one"), waits("one"), waits("one")] == [True, False, False]
    assert [waits("never"), waits("never")] == [True, True]


@pytest.mark.parametrize("implements", [None, "VolumeDriver", [1, None], {"a": 1}])
def test_a_plugin_that_implements_rubbish_implements_nothing(plugin, tmp_path, implements):
    plugin.methods["Plugin.Activate"] = lambda _: {"Implements": implements}
    with pytest.raises(SystemFailure, match="does not implement"):
        Plugins((str(tmp_path),)).get("one", VOLUMES)
