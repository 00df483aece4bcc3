"""Check the names of containers and of their checkpoints, and make a random one for a container where the client gives
none.

Pure but for the random choice; used by the daemon's request threads. The roster decides whether a name is free.
"""

import os
from collections.abc import Callable

from engine.errors import Invalid
from engine.literals import quoted
from engine.regex import regex

_RULE = "[a-zA-Z0-9][a-zA-Z0-9_.-]"
_VALID = regex(f"/?{_RULE}+")

_MOOD_WORDS = (
    "able airy alert ample apt avid bold brave brief bright brisk calm candid careful cheerful civil clear clever "
    "content cosy crisp curious dainty deft eager earnest easy fair fancy fluent fond frank free fresh gentle "
    "glad graceful grand handy happy hardy hearty honest humble ideal jolly keen kind lively loyal lucid mellow "
    "merry mild modest neat nimble noble patient plain plucky polite proud prompt quick quiet rapid ready robust "
    "sage serene sharp shiny silent simple sleek smart snug sober spry stable steady still sturdy subtle sunny "
    "swift tidy tough trusty upbeat valiant vivid warm wise witty zesty"
)
_SHIP_WORDS = (
    "argo bark barge beagle bireme boat brig caique canoe caravel carrack catboat clipper cog coracle corvette "
    "cutter dhow dinghy dory drifter felucca ferry frigate galleon galley gig hooker jolly junk kayak keelboat "
    "ketch knarr launch lighter longboat lugger nef packet pinnace pirogue polacca pontoon prahu pram punt raft "
    "sampan schooner scow shallop skiff sloop smack tartane tender tjalk trawler trireme tug wherry xebec yacht "
    "yawl"
)
MOODS = tuple(_MOOD_WORDS.split())
SHIPS = tuple(_SHIP_WORDS.split())


def check(name: str) -> str:
    """The name without its slash. Raises Invalid, in dockerd's words, unless it is two or more of `[a-zA-Z0-9_.-]`."""
    if not _VALID.fullmatch(name):
        raise Invalid(f"Invalid container name ({name}), only {_RULE} are allowed")
    return name.removeprefix("/")


def check_checkpoint(name: str) -> None:
    """Raise Invalid, in dockerd's words, for a checkpoint's name that could lead out of the checkpoints' directory."""
    if name.startswith("/") or name.endswith(".") or not _VALID.fullmatch(name):
        raise Invalid(f"invalid checkpoint ID {quoted(name)}, only {_RULE} are allowed")


def generate(taken: Callable[[str], bool]) -> str:
    """A random free name, `mood_ship`, with a number behind it if need be; `taken` says whether a name is in use."""
    name = _draw()
    while taken(name):
        name = f"{_draw()}{_below(90_000) + 10}"
    return name


def _draw() -> str:
    return f"{MOODS[_below(len(MOODS))]}_{SHIPS[_below(len(SHIPS))]}"


def _below(limit: int) -> int:
    # The module random would do this too, but takes half a megabyte and has a seed that a fork would share.
    return int.from_bytes(os.urandom(4), "little") % limit
