"""The client's main function: parses the command line by the table of verbs, and runs the verb that it names.

Runs in the client's one thread. A verb's module is loaded when that verb is asked for, so that `engine ps` does not pay
for the terminal code of `engine run`. Exit codes and words are docker's: 125 for an option that is wrong, 1 for what
the daemon refuses, 125 where `run` has made no container.
"""

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from engine.client.api import Api, ApiError
from engine.client.door.destination import destination
from engine.client.showing import colours
from engine.client.verbtable import GLOBAL_OPTIONS, GROUPS, HELP, RUN_FAILED, Verb, named
from engine.commandline import Given, Option, given_text, parse
from engine.errors import EngineError, Invalid
from engine.kernel import reasons
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded for --help, and for who has mistyped; and for --version
    from engine.client import helptexts
    from engine.settings import advertised
else:
    helptexts = late("engine.client.helptexts")
    advertised = late("engine.settings.advertised")

WRONG_OPTION = 125
_INTERRUPTED = 130
_NOBODY_READS = 141  # the status that a shell shows for a program killed by SIGPIPE

Function = Callable[[Api | None, Given, Sequence[str]], int]
"""A verb's function. It gets the Api (None for a verb that speaks to no daemon), the options and the other arguments,
and returns the exit status.
"""

# An option of the client's own that says what a variable of the environment says otherwise.
_VARIABLES = {"host": "ENGINE_HOST", "tlsverify": "DOCKER_TLS_VERIFY", "tls": "DOCKER_TLS"}


class _Mistyped(Exception):
    """The command line is wrong; the text is for the user, and `status` is that of the process."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


def main(arguments: Sequence[str]) -> int:
    """Run one verb; returns the exit status of the process. Errors are printed, none is raised."""
    failed = 1
    try:
        verb, rest, environ = _chosen(arguments)
        if verb is None:
            return 0
        failed = verb.failed
        status = _run(verb, rest, environ)
        sys.stdout.flush()
    except _Mistyped as error:
        print(error, file=sys.stderr)
        return error.status
    except EngineError as error:
        complain(error, runs=failed == RUN_FAILED)
        return failed
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has left. Without this the flush at exit would complain about it once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return _NOBODY_READS
    except OSError as error:  # the host lacks something, or refuses it: /dev/null, a process, room on a disk
        reason = reasons.of(error)
        print(f"engine: {f'{error.filename}: ' if error.filename else ''}{reason}", file=sys.stderr)
        return failed
    return status


def complain(error: EngineError, runs: bool = False) -> None:
    """Show an error: in docker's words where the daemon has made it. runs: the verb is `run`, which says more"""
    refused = isinstance(error, ApiError) and error.status
    text = f"{'Error response from daemon' if refused else 'engine'}: {error}"
    if runs:
        text = f"{'engine: ' if refused else ''}{text}{helptexts.ADVICE_OF_RUN}"
    print(colours.painted(text, "red", colours.wanted(sys.stderr)), file=sys.stderr)


def _chosen(arguments: Sequence[str]) -> tuple[Verb | None, list[str], dict[str, str]]:
    """The verb that is named, with the words behind it and the environment that the options in front of it make.

    None for the verb where the answer has been printed already.
    """
    try:
        given, rest = parse(GLOBAL_OPTIONS, arguments, interspersed=False)
    except Invalid as error:
        raise _Mistyped(f"{error}\n\nRun 'engine --help' for more information", WRONG_OPTION) from error
    if given.get("version"):
        print(f"engine {advertised.VERSION}")
        return None, [], {}
    if not rest or rest == ["help"] or (given.get("help")):
        print(helptexts.usage(), end="")
        return None, [], {}
    words = rest[1:] + ["--help"] if rest[0] == "help" else rest
    verb, others = named(words)
    if verb is None:
        group = words[0] if words[0] in GROUPS else ""
        if group and (len(words) == 1 or words[1] in ("--help", "help")):
            print(helptexts.group_usage(group), end="")
            return None, [], {}
        path = f"engine {group} {words[1]}" if group else f"engine {words[0]}"
        wrong = f"engine: unknown command: {path}\n\nRun '{f'engine {group}'.strip()} --help' for more information"
        raise _Mistyped(wrong, 1)
    return verb, others, {**os.environ, **environment(given)}


def environment(given: Given) -> dict[str, str]:
    """The variables that options in front of a verb set, for `destination`."""
    return {variable: given_text(given, name) or "1" for name, variable in _VARIABLES.items() if given.get(name)}


def _run(verb: Verb, words: Sequence[str], environ: dict[str, str]) -> int:
    options = (*options_of(verb), HELP)
    try:
        given, others = parse(options, words, interspersed=verb.interspersed)
    except Invalid as error:
        raise _Mistyped(f"{error}\n\n{helptexts.short_usage(verb, options)}", WRONG_OPTION) from error
    if given.get("help"):
        print(helptexts.verb_usage(verb, options), end="")
        return 0
    if wrong := helptexts.miscounted(verb, len(others)) if not _fits(verb, len(others)) else "":
        raise _Mistyped(f"engine: 'engine {verb.name}' {wrong}\n\n{helptexts.short_usage(verb, options)}", 1)
    return function_of(verb)(api_of(verb, environ), given, others)


def api_of(verb: Verb, environ: dict[str, str]) -> Api | None:
    """The daemon that a verb speaks to; None for a verb that speaks to none."""
    return Api(destination(environ, os.geteuid())) if verb.remote else None


def _fits(verb: Verb, count: int) -> bool:
    least, most = verb.arguments
    return count >= least and (most is None or count <= most)


def function_of(verb: Verb) -> Function:
    """The function of a verb; its module is loaded."""
    return _loaded(verb)[0]


def options_of(verb: Verb) -> tuple[Option, ...]:
    """The options of a verb; its module is loaded."""
    return _loaded(verb)[1]


def _loaded(verb: Verb) -> tuple[Function, tuple[Option, ...]]:
    functions: dict[str, tuple[Function, tuple[Option, ...]]] = import_module(f"engine.client.{verb.module}").FUNCTIONS
    return functions[verb.name]
