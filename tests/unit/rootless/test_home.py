"""The record of a daemon's namespaces, and how the next daemon finds a process that is still there."""

import json
import os

from engine.rootless import home
from engine.settings import whose


def here():
    return {kind: os.readlink(f"/proc/self/ns/{link}") for kind, link in home._KINDS.items()}


def test_namespaces_are_found_by_a_process_that_is_in_them(tmp_path):
    (tmp_path / "namespaces").write_text(json.dumps(here()))
    found = home.find(str(tmp_path))
    assert {kind: os.readlink(f"/proc/self/fd/{each}") for kind, each in found.items()} == here()
    for each in found.values():
        os.close(each)


def test_of_namespaces_that_have_gone_the_user_namespace_may_be_left(tmp_path):
    (tmp_path / "namespaces").write_text(json.dumps(here() | {"network": "net:[1]"}))
    found = home.find(str(tmp_path))
    assert list(found) == ["user"]
    os.close(found["user"])
    (tmp_path / "namespaces").write_text(json.dumps(dict.fromkeys(here(), "user:[1]")))
    assert home.find(str(tmp_path)) == {}


def test_a_record_that_is_none_is_passed_over(tmp_path):
    assert home.find(str(tmp_path)) == {}
    for text in ("", "[]", "{", '{"user": 1, "mount": 2, "network": 3}', '{"user": "a"}', "\xff" * 9000):
        (tmp_path / "namespaces").write_text(text)
        assert home.find(str(tmp_path)) == {}


def test_a_home_is_handed_on_to_the_next_program(monkeypatch):
    monkeypatch.setenv(whose.HOME, "")
    pair = os.pipe()
    home.Home(*pair).hand_on()
    assert all(map(os.get_inheritable, pair))
    assert home.handed_on() == home.Home(*pair)
    assert not any(map(os.get_inheritable, pair)) and whose.HOME not in os.environ
    for words in ("", "1", "1 x", "1 2 3", "-1 -2"):
        monkeypatch.setenv(whose.HOME, words)
        assert home.handed_on() is None
    for each in pair:
        os.close(each)
