"""The command line of `engine migrate`: its help text, and the directories that it names. Pure."""

from engine.errors import Invalid

DOCKERS = "/var/lib/docker"
"""Where dockerd has its data root if nobody says another."""

_FROM, _CONTAINERD = "--from", "--containerd"


def split(words: list[str]) -> tuple[str, str, list[str]]:
    """The directories after `--from` and `--containerd` (empty for none), and the other words. Raises Invalid."""
    found = {_FROM: DOCKERS, _CONTAINERD: ""}
    rest = []
    waiting = list(words)
    while waiting:
        name, equals, value = waiting.pop(0).partition("=")
        if name not in found:
            rest.append(name + equals + value)
        elif equals:
            found[name] = value
        elif waiting:
            found[name] = waiting.pop(0)
        else:
            raise Invalid(f"flag needs an argument: {name}")
    return found[_FROM], found[_CONTAINERD], rest


def usage() -> str:
    """The help text."""
    return """Usage: engine migrate [--from DIR] [--containerd DIR] [OPTIONS OF THE DAEMON]

Bring over what a stopped dockerd has left: images, volumes, networks, and
containers with their settings, files and logs. The source is only read. What
is here already stays as it is, so the command can be repeated. Stop both
daemons first, and give it the options that the engine's daemon is to have
(see 'engine daemon --help'); it reads the configuration file too.

Options:
      --containerd DIR   Root of the containerd that has dockerd's images
                         (default: dockerd's own, or "/var/lib/containerd")
      --from DIR         Data root of dockerd (default "/var/lib/docker")
      --help             Show this text
"""
