"""engine.daemon.reload: what SIGHUP changes, and that a configuration that cannot be read changes nothing."""

import json
import logging

import pytest

from engine.daemon import reload
from engine.daemon.plugins.activation import Plugins
from engine.daemon.runtime.events import Events
from engine.dataclass import fields, replace
from engine.errors import Invalid
from engine.settings import every
from tests.harness.parts import Parts, told
from tests.unit.images import made


@pytest.fixture
def engine(tmp_path):
    """The part of an engine that has settings, and tells of them; the log's level is put back."""
    level = logging.getLogger().level
    images = made.store(tmp_path)
    yield Parts(id="the-id", settings=images.settings, images=images, events=Events())
    logging.getLogger().setLevel(level)


def test_what_may_change_is_taken_over_and_told(engine):
    before = engine.settings
    found = replace(before, debug=True, insecure_registries=("r:1",), registry_mirrors=("https://m/",), init=True)
    reload.reload(engine, lambda: found)
    assert engine.settings == engine.images.settings == replace(found, init=before.init)
    assert logging.getLogger().level == logging.DEBUG
    (event,) = told(engine.events)
    assert (event.kind, event.action, event.actor) == ("daemon", "reload", "the-id")
    assert event.attributes.pop("name")
    told_of = {"debug": "true", "insecure-registries": '["r:1"]', "registry-mirrors": '["https://m/"]'}
    assert told_of.items() <= event.attributes.items()
    assert event.attributes.keys() - {name.replace("_", "-") for name in reload.CHANGEABLE} == {
        *("default-runtime", "runtimes"),
    }
    assert (event.attributes["default-ipc-mode"], event.attributes["shutdown-timeout"]) == ("private", "15")
    reload.reload(engine, lambda: replace(found, debug=False))
    assert logging.getLogger().level == logging.INFO


def test_the_log_and_the_event_tell_all_of_it_as_dockerd_does_and_no_secret(engine, caplog):
    caplog.set_level(logging.INFO)
    engine.settings = replace(
        engine.settings,
        http_proxy="http://user:s3cret@proxy.test:1",
        https_proxy="user:s3cret@proxy.test:1",
        log_opts=("splunk-token=s3cret", "splunk-url=https://u:s3cret@x.test", "tag=a=b"),
        runtimes=('crun=["/usr/bin/crun","--x"]',),
        default_runtime="crun",
    )
    reload.reload(engine, lambda: replace(engine.settings, features=("b=true", "a=false")))
    assert "s3cret" not in caplog.text
    said = json.loads(caplog.text.partition("Reloaded configuration: ")[2])
    assert said["http-proxy"] == "http://xxxxx:xxxxx@proxy.test:1" and said["https-proxy"] == "xxxxx:xxxxx@proxy.test:1"
    assert said["log-opts"] == ["splunk-token=xxxxx", "splunk-url=https://xxxxx:xxxxx@x.test", "tag=a=b"]
    assert said["features"] == ["b=true", "a=false"] and said["default-runtime"] == "crun"
    (event,) = told(engine.events)
    assert event.attributes["features"] == "map[a:false b:true]"
    assert (event.attributes["runtimes"], event.attributes["default-runtime"]) == (
        "runc:runc crun:/usr/bin/crun",
        "crun",
    )


def test_a_configuration_that_cannot_be_read_changes_nothing(engine, caplog):
    def unreadable():
        raise Invalid("unable to configure the daemon with file x: no")

    before = engine.settings
    reload.reload(engine, unreadable)
    assert engine.settings is before and told(engine.events) == []
    assert "unable to configure the daemon with file x: no" in caplog.text


def test_every_changeable_setting_is_one():
    assert set(reload.CHANGEABLE) <= {each.name for each in fields(every.Settings)}


def test_an_authorization_plugin_that_is_not_there_is_not_taken_over(engine, caplog):
    before, engine.plugins = engine.settings, Plugins(())
    reload.reload(engine, lambda: replace(before, debug=True, authorization_plugins=("none",)))
    assert engine.settings is before
    assert 'the configuration could not be reloaded: plugin "none" not found' in caplog.text
