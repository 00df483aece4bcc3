"""Applying Dockerfile instructions to an image's config, for the `changes` of an import or a commit.

Pure. It takes only the instructions that dockerd takes there. The package `dockerfile` parses and applies them.
"""

import copy
from collections.abc import Iterable

from engine.daemon.dockerfile import configure, instructions, parser
from engine.daemon.dockerfile.commands import Cmd, Command
from engine.daemon.dockerfile.gotext import SPACE
from engine.daemon.dockerfile.statements import Instruction
from engine.daemon.jsontext import Object
from engine.errors import Invalid

INSTRUCTIONS = frozenset(
    (
        "CMD",
        "ENTRYPOINT",
        "ENV",
        "EXPOSE",
        "HEALTHCHECK",
        "LABEL",
        "ONBUILD",
        "STOPSIGNAL",
        "USER",
        "VOLUME",
        "WORKDIR",
    )
)
"""The instructions that change only a config, as far as dockerd takes them in `changes`."""


def apply(config: Object, changes: Iterable[str]) -> Object:
    """A copy of the container config (OCI image config's `config`) with each instruction applied, in order.

    Raises Invalid in dockerd's words. Variables have the values of the config's Env at that instruction.
    """
    changed = copy.deepcopy(config)
    text = "\n".join(changes)
    if all(not line.strip(SPACE) or line.lstrip(SPACE).startswith("#") for line in text.split("\n")):
        return changed
    dockerfile = parser.statements(text.encode())
    for one in dockerfile.instructions:
        if one.keyword not in INSTRUCTIONS:
            raise Invalid(f"{one.written} is not a valid change command")
        instructions.read(one)
    commands = set()
    for one in dockerfile.instructions:
        command = _read(one, changed, dockerfile.escape)
        configure.apply(changed, command, cmd_set=Cmd in commands)
        commands.add(type(command))
    return changed


def _read(one: Instruction, config: Object, escape: str) -> Command:
    variables = dict(entry.partition("=")[::2] for entry in config.get("Env") or [])
    return instructions.read(one, variables, escape)
