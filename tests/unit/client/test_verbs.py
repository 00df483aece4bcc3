"""The table of verbs: each one can be found, explains itself, and counts its arguments."""

import pytest

from engine.client import verbs
from engine.client.api import Api
from engine.client.verbtable import GROUPS, VERBS, named
from tests.unit.client.conftest import answer

SHOWN = [verb for verb in VERBS if not verb.hidden]


@pytest.mark.parametrize("verb", SHOWN, ids=lambda verb: verb.name)
def test_each_verb_is_there_and_explains_itself(verb, capsys):
    assert callable(verbs.function_of(verb))
    assert verbs.main([*verb.name.split(), "--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"Usage:  engine {verb.name}")
    assert all(f"--{option.name}" in text for option in verbs.options_of(verb))
    assert max(map(len, text.splitlines()[3:])) <= 110


def test_no_name_means_two_verbs_and_no_options_two_things():
    names = [name for verb in VERBS for name in (verb.name, *verb.aliases)]
    assert len(names) == len(set(names))
    for verb in VERBS:
        options = [*(option.name for option in verbs.options_of(verb)), "help"]
        shorts = [option.short for option in verbs.options_of(verb) if option.short]
        assert len(options) == len(set(options)), verb.name
        assert len(shorts) == len(set(shorts)), verb.name


def test_each_group_has_verbs_and_each_verb_of_two_words_a_group():
    names = [name for verb in VERBS for name in (verb.name, *verb.aliases) if " " in name]
    assert {name.split()[0] for name in names} == set(GROUPS)


def test_an_alias_is_its_verb():
    assert named(["container", "ls", "-a"])[0].name == "ps"
    assert named(["container", "ls", "-a"])[1] == ["-a"]
    assert named(["volume", "remove", "x"])[0].name == "volume rm"
    assert named([]) == named(["volume"]) == (None, [])


def test_the_help_text_names_every_verb(capsys):
    assert verbs.main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"\n  {verb.name} " in text for verb in SHOWN if " " not in verb.name)
    assert all(f"\n  {group} " in text for group in GROUPS)
    assert verbs.main([]) == 0
    assert capsys.readouterr().out == text


def test_a_group_lists_its_verbs(capsys):
    for words in (["network"], ["network", "--help"], ["help", "network"]):
        assert verbs.main(words) == 0
        text = capsys.readouterr().out
        assert text.startswith("Usage:  engine network COMMAND")
        assert "\n  connect " in text


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["logs"], "requires 1 argument"),
        (["logs", "a", "b"], "requires 1 argument"),
        (["rm"], "requires at least 1 argument"),
        (["ps", "x"], "accepts no arguments"),
        (["image-from-host", "n"], "requires at least 2 arguments"),
        (["images", "a", "b"], "requires at most 1 argument"),
    ],
)
def test_a_wrong_number_of_arguments_is_refused(words, wrong, capsys):
    assert verbs.main(words) == 1
    assert f"engine: 'engine {words[0]}' {wrong}\n\nUsage:  engine {words[0]}" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["frobnicate"], ["network", "frobnicate"]])
def test_an_unknown_verb_is_named(words, capsys):
    assert verbs.main(words) == 1
    assert f"engine: unknown command: engine {' '.join(words)}" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--nope"], ["-H"], ["ps", "--nope"], ["ps", "-f", "x"]])
def test_a_wrong_option_ends_with_125(words, capsys):
    assert verbs.main(words) == 125
    assert "for more information" in capsys.readouterr().err


def test_host_on_the_command_line_comes_before_the_environment(canned, capsys, monkeypatch):
    monkeypatch.setenv("ENGINE_HOST", "unix:///nowhere")
    canned.answers.append(answer(200, b'{"Version":"9","ApiVersion":"1.54"}'))
    assert verbs.main(["-H", f"unix://{canned.path}", "version"]) == 0
    assert "ApiVersion     1.54" in capsys.readouterr().out


def test_a_refusal_is_the_daemons_and_a_failure_the_clients(canned, capsys):
    canned.answers.append(answer(500, b'{"message":"no"}'))
    assert verbs.main(["-H", f"unix://{canned.path}", "ps"]) == 1
    assert capsys.readouterr().err == "Error response from daemon: no\n"
    assert verbs.main(["-H", "unix:///nowhere/s", "ps"]) == 1
    assert capsys.readouterr().err.startswith("engine: cannot connect to the engine at unix:///nowhere/s: ")


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
