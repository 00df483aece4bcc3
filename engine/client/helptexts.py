"""The client's help texts, and what it says of a command line that has too few or too many arguments.

Pure; made of the table of verbs and of their options.
"""

from collections.abc import Sequence

from engine.client.verbtable import GLOBAL_OPTIONS, GROUPS, VERBS, Verb
from engine.commandline import Option, described

# Verbs that are no part of the client: `engine.__main__` knows them.
BESIDE = {
    "daemon": "Run the daemon (see 'engine daemon --help')",
    "listen": "Hold the daemon's sockets, and start it when a client connects",
    "check": "Show what this host has and lacks for the engine",
    "inspect-processes": "Show an engine's processes and what each holds",
    "power-off": "Stop the containers of a sleeping engine as the host goes down",
    "install-units": "Write the daemon's units for systemd",
    "migrate": "Bring over what a stopped dockerd has left",
    "bundle": "Write the engine as one file, or as a Debian package",
}

ADVICE_OF_RUN = "\n\nRun 'engine run --help' for more information"
"""What docker says behind every reason why `run` has failed."""


def usage() -> str:
    """The help text of `engine`."""
    verbs = {verb.name: verb.help for verb in VERBS if " " not in verb.name and not verb.hidden}
    return f"""Usage:  engine [OPTIONS] COMMAND

A container engine that speaks the Docker Engine API.

Commands:
{_listed(BESIDE | verbs)}

Management commands:
{_listed(GROUPS)}

Options:
{described(GLOBAL_OPTIONS)}

Run 'engine COMMAND --help' for more information on a command.
"""


def group_usage(group: str) -> str:
    """The help text of a group of verbs, such as `engine network`."""
    # Of several names in the group a verb shows the first one.
    named = {
        verb: next((name for name in (verb.name, *verb.aliases) if name.startswith(group + " ")), "") for verb in VERBS
    }
    verbs = {name.split()[1]: verb.help for verb, name in named.items() if name and not verb.hidden}
    return f"""Usage:  engine {group} COMMAND

{GROUPS[group]}

Commands:
{_listed(dict(sorted(verbs.items())))}

Run 'engine {group} COMMAND --help' for more information on a command.
"""


def verb_usage(verb: Verb, options: Sequence[Option]) -> str:
    """The help text of one verb."""
    names = ", ".join(f"engine {name}" for name in (verb.name, *verb.aliases))
    others = f"\nAliases:\n  {names}\n" if verb.aliases else ""
    return f"""Usage:  {_line(verb, options)}

{verb.help}
{others}
Options:
{described(options)}
"""


def short_usage(verb: Verb, options: Sequence[Option]) -> str:
    """What stands below an error in a verb's command line."""
    return f"Usage:  {_line(verb, options)}\n\nRun 'engine {verb.name} --help' for more information"


def miscounted(verb: Verb, count: int) -> str:
    """What is wrong with this number of arguments, in docker's words."""
    least, most = verb.arguments
    if most == 0:
        return "accepts no arguments"
    if least == most:
        return f"requires {_counted(least)}"
    if most is None:
        return f"requires at least {_counted(least)}"
    return f"requires at most {_counted(most)}" if count > most else f"requires at least {_counted(least)}"


def _counted(count: int) -> str:
    return f"{count} argument" + ("s" if count != 1 else "")


def _line(verb: Verb, options: Sequence[Option]) -> str:
    # Each verb has one option, --help, which docker does not count either.
    return f"engine {verb.name} {'[OPTIONS] ' if len(options) > 1 else ''}{verb.usage}".rstrip()


def _listed(rows: dict[str, str]) -> str:
    return "\n".join(f"  {name:<19}{text}" for name, text in rows.items())
