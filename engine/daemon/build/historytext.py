"""The `created_by` text that each instruction leaves in an image's history, as BuildKit writes it.

Pure. The texts use Go's formats of lists and structs, as `wording` does for the classic builder's.
"""

from collections.abc import Callable

from engine.daemon.build import wording
from engine.daemon.dockerfile import commands, configure
from engine.daemon.dockerfile.commands import Command
from engine.daemon.jsontext import Object
from engine.redact import redacted

_MADE = " # buildkit"
COMMENT = "buildkit.dockerfile.v0"
"""The comment of each entry."""


def of(command: Command, config: Object) -> str:
    """The text of an instruction that makes no files itself, or only a directory. config: as it is afterwards"""
    special = _SPECIAL.get(type(command))
    return special(command, config) if special else wording.of(command, config)


def run(shown: str) -> str:
    """The text of a RUN. shown: its command with the build's arguments"""
    return f"RUN {shown}{_MADE}"


def copy(command: commands.Copy | commands.Add) -> str:
    """The text of a COPY or an ADD."""
    flags = (
        ("--parents", isinstance(command, commands.Copy) and command.parents),
        (f"--chown={command.chown}", command.chown),
        (f"--chmod={command.chmod}", command.chmod),
    )
    documents = [f"<<{each.name}" for each in command.heredocs]
    words = [type(command).__name__.upper(), *(text for text, given in flags if given), *command.sources, *documents]
    return redacted(f"{' '.join(words)} {command.destination}{_MADE}")


def _expose(command: Command, _config: Object) -> str:
    assert isinstance(command, commands.Expose)  # as the table says
    return f"EXPOSE {wording.plain(list(configure.ports(command.ports)))}"


def _healthcheck(_command: Command, config: Object) -> str:
    return f"HEALTHCHECK {wording.health(config)}"


_SPECIAL: dict[type, Callable[[Command, Object], str]] = {
    commands.Expose: _expose,
    commands.Healthcheck: _healthcheck,
}
