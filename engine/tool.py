"""A verb for operators that runs in a process of its own and asks no daemon: its options, help text and exit status.

`install-units`, `bundle` and `inspect-processes` are such verbs. Each is a table of options and a function.
"""

import os
import sys
from collections.abc import Callable, Sequence

from engine.commandline import Given, Option, described, parse
from engine.dataclass import dataclass
from engine.errors import EngineError, Invalid

_HELP = Option("help", "Show this text", kind="flag", default=False)


@dataclass(frozen=True, slots=True)
class Tool:
    """One verb.

    summary: what it does, in one line; options: without `--help`, which each verb has
    act: does it with the options that were given, and prints; raises EngineErrors
    """

    name: str
    summary: str
    options: tuple[Option, ...]
    act: Callable[[Given], None]

    def main(self, words: Sequence[str]) -> int:
        """Do it; returns the exit status of the process: 0, or 1 with the reason on standard error."""
        try:
            given, others = parse((*self.options, _HELP), words)
            if given.get("help"):
                print(self.usage(), end="")
                return 0
            if others:
                raise Invalid(f"wrong number of arguments. Usage: engine {self.name} [OPTIONS]")
            self.act(given)
            sys.stdout.flush()
        except EngineError as error:
            print(f"engine {self.name}: {error}", file=sys.stderr)
            return 1
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # who read has seen enough
        return 0

    def usage(self) -> str:
        """The help text."""
        return f"""Usage: engine {self.name} [OPTIONS]

{self.summary}

Options:
{described((*self.options, _HELP))}
"""
