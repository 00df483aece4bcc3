"""The command line of `engine migrate`: its help text, and the directory that it names. Pure."""

from engine.errors import Invalid

_FROM = "--from"
_DOCKERS = "/var/lib/docker"


def split(words: list[str]) -> tuple[str, list[str]]:
    """The directory after `--from`, and the other words. Raises Invalid."""
    for at, word in enumerate(words):
        if word.startswith(f"{_FROM}="):
            return word.partition("=")[2], [*words[:at], *words[at + 1 :]]
        if word == _FROM:
            if at + 1 == len(words):
                raise Invalid(f"flag needs an argument: {_FROM}")
            return words[at + 1], [*words[:at], *words[at + 2 :]]
    return _DOCKERS, words


def usage() -> str:
    """The help text."""
    return """Usage: engine migrate [--from DIR] [OPTIONS OF THE DAEMON]

Bring over what a stopped dockerd has left: images, volumes, networks, and
containers with their settings, files and logs. The source is only read. What
is here already stays as it is, so the command can be repeated. Stop both
daemons first, and give it the options that the engine's daemon is to have
(see 'engine daemon --help'); it reads the configuration file too.

Options:
      --from DIR   Data root of dockerd (default "/var/lib/docker")
      --help       Show this text
"""
