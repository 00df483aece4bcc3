"""The verb `engine __complete`, which shells call: what may stand in the place of the last word of a command line.

Runs in the client's one thread. It answers with a candidate a line, perhaps with a tab and its meaning, and asks the
daemon for names. A last line `:file` or `:directory` tells the shell to add such names by itself. Where the daemon
cannot be reached there are no names, and no word about it: the user is in the middle of typing.
"""

import os
import signal
from collections.abc import Callable, Iterator, Sequence

from engine.client import helptexts, verbs
from engine.client.api import Api
from engine.client.door.destination import destination
from engine.client.verbtable import GLOBAL_OPTIONS, GROUPS, HELP, VERBS, named
from engine.commandline import Given, Option, parse
from engine.errors import EngineError

_PATIENCE = 3  # seconds
_FILE, _DIRECTORY = ":file", ":directory"

# What the value of an option is, by the option's name.
_VALUES = {
    "network": "network",
    "volumes-from": "container",
    "link": "container",
    "volume": "volume",
    "pull": "always missing never",
    "restart": "no always unless-stopped on-failure",
    "type": "container image network volume",
    "format": "json table",
    "signal": "HUP INT QUIT KILL USR1 USR2 TERM CONT STOP",
    "log-driver": "json-file local syslog journald none",
    **dict.fromkeys(("env-file", "label-file", "cidfile", "iidfile", "input", "output", "file"), _FILE),
}


def complete_verb(api: None, given: Given, others: Sequence[str]) -> int:
    """`engine __complete -- WORD...`: print the candidates for the last word."""
    # A daemon that hangs ends this process, and the shell goes on without names.
    signal.alarm(_PATIENCE)
    *before, last = others or [""]
    for candidate in candidates(before, last):
        print(candidate)
    return 0


def candidates(before: Sequence[str], last: str) -> Iterator[str]:
    """The lines of the answer.

    before: the words of the command line in front of the last one, without `engine`
    """
    known, rest, waiting, _ = _walk(GLOBAL_OPTIONS, before, False)
    if waiting is not None:
        return
    verb, words = named(rest)
    if verb is None:
        rows = _first_words(rest)
        if not rest and last.startswith("-"):
            rows = _option_rows(GLOBAL_OPTIONS)
        yield from _fitting(rows, last)
        return
    options = (*verbs.options_of(verb), HELP)
    _, others, waiting, ended = _walk(options, words, verb.interspersed)
    name, separator, value = last.partition("=")
    if waiting is not None:
        yield from _of_kind(_VALUES.get(waiting.name, ""), last, known)
    elif ended or not last.startswith("-"):
        kinds = verb.completes
        yield from _of_kind(kinds[min(len(others), len(kinds) - 1)] if kinds else "", last, known)
    elif separator:
        found = _of_kind(_VALUES.get(name.lstrip("-"), ""), value, known)
        yield from (f"{name}={one}" for one in found if not one.startswith(":"))
    else:
        yield from _fitting(_option_rows(options), last)


def _walk(
    options: Sequence[Option], words: Sequence[str], interspersed: bool
) -> tuple[list[str], list[str], Option | None, bool]:
    """Read words that may be incomplete: (the options' words, the others, the option that waits for its value, whether
    what follows is no option).
    """
    found = {f"--{option.name}": option for option in options} | {f"-{o.short}": o for o in options if o.short}
    taken: list[str] = []
    others: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return taken, [*others, *rest], None, True
        if not word.startswith("-") or word == "-":
            others.append(word)
            if not interspersed:
                return taken, [*others, *rest], None, True
            continue
        taken.append(word)
        # Of a bundle of short options the last one may want a value.
        option = found.get(word) or (found.get(f"-{word[-1]}") if not word.startswith("--") else None)
        if option is not None and option.kind != "flag" and "=" not in word:
            if not rest:
                return taken, others, option, False
            taken.append(rest.pop(0))
    return taken, others, None, False


def _first_words(rest: Sequence[str]) -> dict[str, str]:
    """The names of verbs that may follow these words, with what they do."""
    if not rest:
        plain = {verb.name: verb.help for verb in VERBS if " " not in verb.name and not verb.hidden}
        return helptexts.BESIDE | plain | GROUPS
    if len(rest) == 1 and rest[0] in GROUPS:
        names = ((name, verb.help) for verb in VERBS for name in (verb.name, *verb.aliases))
        return {name.split()[1]: text for name, text in names if name.startswith(f"{rest[0]} ")}
    return {}


def _option_rows(options: Sequence[Option]) -> dict[str, str]:
    return {f"--{option.name}": option.help for option in options}


def _fitting(rows: dict[str, str], last: str) -> Iterator[str]:
    for name, text in sorted(rows.items()):
        if name.startswith(last):
            yield f"{name}\t{text.splitlines()[0]}"


def _of_kind(kind: str, last: str, known: Sequence[str]) -> Iterator[str]:
    """The candidates of a kind: names that the daemon knows, the words of a list, or what the shell finds by itself."""
    if kind in (_FILE, _DIRECTORY):
        yield kind
        return
    if kind in _PLACES:
        yield _PLACES[kind]
    if kind not in _ASKED:
        yield from (word for word in kind.split() if word.startswith(last) and kind not in _PLACES)
        return
    try:
        given, _ = parse(GLOBAL_OPTIONS, known)
        api = Api(destination({**os.environ, **verbs.environment(given)}, os.geteuid()))
        found = sorted({name for ask in _ASKED[kind] for name in ask(api)})
    except (EngineError, OSError):
        return
    yield from (name for name in found if name.startswith(last))


def _containers(*states: str) -> Callable[[Api], list[str]]:
    def ask(api: Api) -> list[str]:
        found = api.call("GET", "/containers/json", {"all": True})
        return [
            name.lstrip("/")
            for container in found
            if not states or container["State"] in states
            for name in container["Names"]
        ]

    return ask


def _images(api: Api) -> list[str]:
    names = [name for image in api.call("GET", "/images/json") for name in image.get("RepoTags") or ()]
    return [*names, *(name.removesuffix(":latest") for name in names)]


def _networks(api: Api) -> list[str]:
    return [network["Name"] for network in api.call("GET", "/networks")]


def _volumes(api: Api) -> list[str]:
    return [volume["Name"] for volume in api.call("GET", "/volumes")["Volumes"] or ()]


def _sources(api: Api) -> list[str]:
    return [f"{name}:" for name in _containers()(api)]


_ASKED: dict[str, tuple[Callable[[Api], list[str]], ...]] = {
    "container": (_containers(),),
    "running": (_containers("running", "paused"),),
    "stopped": (_containers("exited", "created", "dead"),),
    "image": (_images,),
    "network": (_networks,),
    "volume": (_volumes,),
    "object": (_containers(), _images, _networks, _volumes),
    "copied": (_sources,),
}
_PLACES = {"file": _FILE, "directory": _DIRECTORY, "copied": _FILE}

FUNCTIONS = {"__complete": (complete_verb, ())}
