"""The table of verbs: each one can be found, explains itself, and counts its arguments."""

import pytest

from engine.client import verbs
from engine.client.api import Api
from tests.unit.client.conftest import answer


@pytest.mark.parametrize("verb", verbs.VERBS, ids=lambda verb: verb.name)
def test_each_verb_is_there_and_explains_itself(verb, capsys):
    assert callable(verbs._function(verb))
    assert verbs.main([verb.name, "--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"Usage: engine {verb.name}")
    assert all(f"--{option.name}" in text for option in verbs._options(verb))
    assert max(map(len, text.splitlines())) <= 80


def test_the_help_text_names_every_verb(capsys):
    assert verbs.main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"\n  {verb.name} " in text for verb in verbs.VERBS)
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    "words", [["logs"], ["logs", "a", "b"], ["rm"], ["ps", "x"], ["image-from-host", "n"], ["version", "x"]]
)
def test_a_wrong_number_of_arguments_is_refused(words, capsys):
    assert verbs.main(words) == 1
    assert "wrong number of arguments" in capsys.readouterr().err


def test_an_unknown_verb_is_named(capsys):
    assert verbs.main(["frobnicate"]) == 1
    assert "'frobnicate' is not a verb" in capsys.readouterr().err


def test_host_on_the_command_line_comes_before_the_environment(canned, capsys, monkeypatch):
    monkeypatch.setenv("ENGINE_HOST", "unix:///nowhere")
    canned.answers.append(answer(200, b'{"Version":"9","ApiVersion":"1.54"}'))
    assert verbs.main(["-H", f"unix://{canned.path}", "version"]) == 0
    assert "ApiVersion     1.54" in capsys.readouterr().out


def test_a_reader_that_leaves_is_no_error(canned, monkeypatch):
    def leave(*_):
        raise BrokenPipeError

    monkeypatch.setattr(Api, "call", leave)
    monkeypatch.setattr(verbs.os, "dup2", lambda *_: None)
    assert verbs.main(["-H", f"unix://{canned.path}", "ps"]) == 141


def test_an_interrupt_ends_with_130(canned, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Api, "call", interrupt)
    assert verbs.main(["-H", f"unix://{canned.path}", "ps"]) == 130
