"""What people see of a step: its instruction with the values of variables, and a secret's value never.

Pure. Source: buildkit, frontend/dockerfile/dockerfile2llb, processCmdEnv and withSecretEnvMask. What cannot be expanded
stays as it is written.
"""

from engine.daemon.builder.arguments import Arguments
from engine.daemon.builder.state import State
from engine.daemon.dockerfile import commands, words
from engine.daemon.dockerfile.commands import Command
from engine.daemon.dockerfile.words import Lexer
from engine.errors import Invalid

_HIDDEN = "****"
_LONGEST = 4096  # characters that values may make a text long


def title(text: str, command: Command, state: State, escape: str) -> str:
    """The text of an instruction, as it is shown. command: that it is; state: of the stage before it

    After a RUN that is nothing but a here-document stands that document's first line.
    """
    try:
        if isinstance(command, commands.Run):
            secret = {mount.env: _HIDDEN for mount in command.mounts if mount.type == "secret" and mount.env}
            seen = words.Counted(_seen(state) | secret, state.arguments.growth)
            lexer = Lexer(text, seen, escape, keep_quotes=True, keep_escapes=True, keep_unset=True)
            found = "".join(piece for piece, _ in lexer.pieces())
        else:
            found = words.expand(text, words.Counted(_seen(state), state.arguments.growth), escape)
    except Invalid:
        return text
    found = found if len(found) <= max(len(text), _LONGEST) else text
    return f"{found}{_document(command)}" if isinstance(command, commands.Run) else found


def _document(command: commands.Run) -> str:
    """The first line of the here-document that is the whole command, and dots for others; empty for another command."""
    if not command.heredocs or (command.script is None and command.shell != command.heredocs[0].chomped().data):
        return ""
    first, *others = command.heredocs[0].data.strip().replace("\r\n", "\n").split("\n", 1)
    return f" ({first[:_LONGEST]}{'...' if others else ''})"


def _seen(state: State) -> dict[str, str]:
    """The variables of a step, without proxies that no ARG has named: these may have passwords."""
    hidden = _hidden(state.arguments)
    return {name: value for name, value in state.environment().items() if name not in hidden}


def _hidden(arguments: Arguments) -> set[str]:
    visible = arguments.visible()
    return visible.keys() - set(arguments.shown(visible))
