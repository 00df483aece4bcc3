"""Proxies of the settings become the daemon's variables, before those that it had."""

import logging

from engine.daemon import proxyvariables
from tests.harness.parts import settings


def test_what_the_settings_name_counts_and_nothing_else_changes(caplog):
    environ = {"http_proxy": "http://me:secret@old:1", "NO_PROXY": "here", "HTTPS_PROXY": "http://p:2"}
    with caplog.at_level(logging.WARNING):
        proxyvariables.use(settings(http_proxy="http://me:other@new:1", https_proxy="http://p:2"), environ)
    assert environ == {
        **dict.fromkeys(("HTTP_PROXY", "http_proxy"), "http://me:other@new:1"),
        **dict.fromkeys(("HTTPS_PROXY", "https_proxy"), "http://p:2"),
        "NO_PROXY": "here",
    }
    (line,) = caplog.messages
    assert line == (
        "overriding existing proxy variable with value from configuration:"
        " http_proxy was http://xxxxx:xxxxx@old:1 and is http://xxxxx:xxxxx@new:1"
    )


def test_hosts_that_are_asked_without_a_proxy_take_the_place_of_the_variables():
    environ = {"NO_PROXY": "here"}
    proxyvariables.use(settings(no_proxy="a.test,10.0.0.0/8"), environ)
    assert environ == dict.fromkeys(("NO_PROXY", "no_proxy"), "a.test,10.0.0.0/8")


def test_credentials_without_a_scheme_are_not_shown(caplog):
    with caplog.at_level(logging.WARNING):
        proxyvariables.use(settings(http_proxy="p:1"), {"HTTP_PROXY": "me:secret@p:1"})
    assert "secret" not in caplog.text
