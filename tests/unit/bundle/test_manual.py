"""The manual pages: each option and verb is in them, and roff sees nothing in a text but text."""

import shutil
import subprocess

import pytest

from engine.bundle import furnishing, main, manual
from engine.client import verbs, verbtable
from engine.settings import every


def shown(page: str) -> str:
    """A page as man(1) shows it, in one line. Fails with what groff warns of."""
    if shutil.which("groff") is None:
        pytest.skip("there is no groff")
    command = ["groff", "-man", "-Tascii", "-P-cbou", "-ww", "-rLL=200n", "-rHY=0"]
    done = subprocess.run(command, input=page, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return " ".join(done.stdout.split())


def test_the_daemons_page_has_every_option() -> None:
    text = shown(furnishing.daemon_page())
    for option in every.OPTIONS:
        assert f"--{option.name}" in text
        assert " ".join(option.help.split()) in text, option.name


def test_the_clients_page_has_every_verb() -> None:
    text = shown(furnishing.client_page(main.usage()))
    for verb in verbtable.VERBS:
        options = "[OPTIONS] " if verbs.options_of(verb) else ""
        assert verb.hidden or f"engine {verb.name} {options}{verb.usage}".strip() in text
        assert verb.hidden or verb.help in text
    for name in ("listen", "check", "inspect-processes", "install-units", "migrate", "bundle"):
        assert f"engine {name}" in text


def test_nothing_of_a_text_is_a_request() -> None:
    help_text = "Usage: x\n\n.so /etc/passwd\n'tl\n\\*[odd] a-b\n\nOptions:\n      --one .sh  .ab\n"
    text = shown(manual.page("x", 1, "1", "\\fBbold", [help_text]))
    for words in (".so /etc/passwd", "'tl", "\\*[odd] a-b", "--one .sh .ab", "\\fBbold"):
        assert words in text
