"""engine.daemon.reload: what SIGHUP changes, and that a configuration that cannot be read changes nothing."""

import logging
from dataclasses import replace
from types import SimpleNamespace

import pytest

from engine.daemon import reload
from engine.errors import Invalid
from engine.settings import every


@pytest.fixture
def engine():
    """As much of an engine as has settings, and a list of what it told; the log's level is put back."""
    level = logging.getLogger().level
    told = []
    chosen = every.from_arguments(["--config-file", "/dev/null"], {}, 0)
    yield SimpleNamespace(
        id="the-id",
        settings=chosen,
        images=SimpleNamespace(settings=chosen),
        told=told,
        events=SimpleNamespace(publish=lambda *event: told.append(event)),
    )
    logging.getLogger().setLevel(level)


def test_what_may_change_is_taken_over_and_told(engine):
    before = engine.settings
    found = replace(before, debug=True, insecure_registries=("r:1",), registry_mirrors=("https://m/",), init=True)
    reload.reload(engine, lambda: found)
    assert engine.settings == engine.images.settings == replace(found, init=before.init)
    assert logging.getLogger().level == logging.DEBUG
    ((kind, action, actor, attributes),) = engine.told
    assert (kind, action, actor) == ("daemon", "reload", "the-id")
    assert attributes.pop("name")
    assert attributes == {"debug": "true", "insecure-registries": '["r:1"]', "registry-mirrors": '["https://m/"]'}
    reload.reload(engine, lambda: replace(found, debug=False))
    assert logging.getLogger().level == logging.INFO


def test_a_configuration_that_cannot_be_read_changes_nothing(engine, caplog):
    def unreadable():
        raise Invalid("unable to configure the daemon with file x: no")

    before = engine.settings
    reload.reload(engine, unreadable)
    assert engine.settings is before and engine.told == []
    assert "unable to configure the daemon with file x: no" in caplog.text


def test_every_changeable_setting_is_one():
    assert set(reload.CHANGEABLE) <= set(every.Settings.__dataclass_fields__)
