"""The client's main function and its table of verbs: parses the command line, and runs the verb that it names.

Runs in the client's one thread. A verb's module is loaded when that verb is asked for, so that `engine ps` does not pay
for the terminal code of `engine run`.
"""

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from engine.client.api import Api
from engine.client.transport import socket_path
from engine.commandline import Given, Option, described, given_text, parse
from engine.dataclass import dataclass
from engine.errors import EngineError, Invalid
from engine.settings.every import VERSION

_INTERRUPTED = 130
_NOBODY_READS = 141  # the status that a shell shows for a program killed by SIGPIPE

Function = Callable[[Api | None, Given, Sequence[str]], int]
"""A verb's function. It gets the Api (None for a verb that speaks to no daemon), the options and the other arguments,
and returns the exit status.
"""


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb of the client.

    function, options: where they are defined, as `module.NAME` below engine.client; options may be empty
    arguments: how many other arguments it takes: at least, at most (None: any number)
    interspersed: options may follow the first argument
    remote: it speaks to the daemon that the user has chosen; otherwise its function gets None for the Api
    """

    name: str
    usage: str
    help: str
    function: str
    options: str = ""
    arguments: tuple[int, int | None] = (0, 0)
    interspersed: bool = True
    remote: bool = True


VERBS = (
    Verb(
        "demo",
        "",
        "Show the main job on a private daemon: nothing installed",
        "demo.demo",
        "demo.OPTIONS",
        remote=False,
    ),
    Verb(
        "run",
        "IMAGE [COMMAND] [ARG...]",
        "Run a command in a new container",
        "run.run",
        "run.OPTIONS",
        (1, None),
        False,
    ),
    Verb("ps", "", "Show containers", "containers.ps_verb", "containers.PS_OPTIONS"),
    Verb(
        "logs", "CONTAINER", "Show the output of a container", "containers.logs_verb", "containers.LOGS_OPTIONS", (1, 1)
    ),
    Verb("rm", "CONTAINER...", "Remove containers", "containers.rm_verb", "containers.RM_OPTIONS", (1, None)),
    Verb("pull", "IMAGE", "Pull an image from its registry", "images.pull_verb", "images.PULL_OPTIONS", (1, 1)),
    Verb("images", "[NAME]", "Show images", "images.images_verb", "images.IMAGES_OPTIONS", (0, 1)),
    Verb(
        "image-from-host",
        "NAME PROGRAM...",
        "Make an image of programs of this host and what they need",
        "images.host_image_verb",
        arguments=(2, None),
    ),
    Verb("version", "", "Show the versions of client and daemon", "system.version_verb"),
)
GLOBAL_OPTIONS = (
    Option("host", "Daemon to speak to, instead of ENGINE_HOST or DOCKER_HOST", short="H", value="unix://PATH"),
    Option("help", "Show this text", kind="flag", default=False),
    Option("version", "Show the client's version", short="v", kind="flag", default=False),
)
_HELP = Option("help", "Show this text", kind="flag", default=False)


def main(arguments: Sequence[str]) -> int:
    """Run one verb; returns the exit status of the process. Errors are printed, none is raised."""
    try:
        status = _main(arguments)
        sys.stdout.flush()
    except EngineError as error:
        print(f"engine: {error}", file=sys.stderr)
        return 125 if _verb_name(arguments) == "run" else 1
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has left. Without this the flush at exit would complain about it once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return _NOBODY_READS
    except OSError as error:  # the host lacks something, or refuses it: /dev/null, a process, room on a disk
        print(f"engine: {error}", file=sys.stderr)
        return 125 if _verb_name(arguments) == "run" else 1
    return status


def _main(arguments: Sequence[str]) -> int:
    given, rest = parse(GLOBAL_OPTIONS, arguments, interspersed=False)
    if given.get("version"):
        print(f"engine {VERSION}")
        return 0
    if given.get("help") or not rest:
        print(usage(), end="")
        return 0 if given.get("help") else 1
    name, *words = rest
    verb = next((verb for verb in VERBS if verb.name == name), None)
    if verb is None:
        raise Invalid(f"'{name}' is not a verb of engine. See 'engine --help'")
    options = (*_options(verb), _HELP)
    given_to_verb, others = parse(options, words, interspersed=verb.interspersed)
    if given_to_verb.get("help"):
        print(verb_usage(verb), end="")
        return 0
    least, most = verb.arguments
    if len(others) < least or (most is not None and len(others) > most):
        raise Invalid(f"wrong number of arguments. Usage: engine {verb.name} [OPTIONS] {verb.usage}".rstrip())
    environ = os.environ | ({"ENGINE_HOST": given_text(given, "host")} if "host" in given else {})
    api = Api(socket_path(environ, os.geteuid())) if verb.remote else None
    return _function(verb)(api, given_to_verb, others)


def _verb_name(arguments: Sequence[str]) -> str:
    return next((word for word in arguments if any(verb.name == word for verb in VERBS)), "")


def _function(verb: Verb) -> Function:
    module, name = _place(verb.function)
    function: Function = getattr(import_module(module), name)
    return function


def _options(verb: Verb) -> tuple[Option, ...]:
    if not verb.options:
        return ()
    module, name = _place(verb.options)
    options: tuple[Option, ...] = getattr(import_module(module), name)
    return options


def _place(text: str) -> tuple[str, str]:
    """The module and the name that a `module.NAME` of a `Verb` means."""
    module, _, name = text.rpartition(".")
    return f"engine.client.{module}", name


def usage() -> str:
    """The help text of `engine`."""
    rows = "\n".join(f"  {verb.name:<19}{verb.help}" for verb in VERBS)
    return f"""Usage: engine [OPTIONS] VERB ...

A container engine that speaks the Docker Engine API.

Verbs:
  {"daemon":<19}Run the daemon (see 'engine daemon --help')
  {"check":<19}Show what this host has and lacks for the engine
  {"inspect-processes":<19}Show an engine's processes and what each holds
  {"install-units":<19}Write the daemon's units for systemd
  {"bundle":<19}Write the engine as one file, or as a Debian package
{rows}

Options:
{described(GLOBAL_OPTIONS)}
"""


def verb_usage(verb: Verb) -> str:
    """The help text of one verb."""
    return f"""Usage: engine {verb.name} [OPTIONS] {verb.usage}

{verb.help}

Options:
{described((*_options(verb), _HELP))}
"""
