"""The tag, labels and variables that a container's log options ask to be added to its log lines.

Pure; used by the daemon's request threads, at each start. The values are those of the container's creation; the tag has
the name at the start, so that a rename changes it with the next start, as in dockerd.
"""

import re
from collections.abc import Callable

from engine.dataclass import dataclass
from engine.errors import Invalid
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded by the first container that names attributes by a regular expression
    from engine.re2 import automaton
else:
    automaton = late("engine.re2.automaton")

OPTIONS = frozenset({"labels", "labels-regex", "env", "env-regex", "tag"})
_SHORT = 12
# No braces inside: otherwise each beginning would start a new search for an end.
_ACTION = re.compile(r"\{\{-?([^{}]*?)-?\}\}")
_FIELD = re.compile(r"\s*\.([A-Za-z_]\w*)\s*")


@dataclass(frozen=True, slots=True)
class Described:
    """What dockerd calls logger.Info. image: as the client named it; image_id: with `sha256:`; name: without slash.

    path, args: its command; created_ns: in ns since the epoch
    """

    id: str
    name: str
    image: str
    image_id: str
    env: tuple[str, ...]
    labels: dict[str, str]
    path: str = ""
    args: tuple[str, ...] = ()
    created_ns: int = 0

    @property
    def command(self) -> str:
        """The command in one line."""
        return " ".join((self.path, *self.args))


# Every field of a tag's template. dockerd's {{.DaemonName}} is `docker`, whatever the daemon's name is.
_FIELDS: dict[str, Callable[[Described], str]] = {
    "ID": lambda one: one.id[:_SHORT],
    "FullID": lambda one: one.id,
    "Name": lambda one: one.name,
    "ImageID": lambda one: one.image_id[:_SHORT],
    "ImageFullID": lambda one: one.image_id,
    "ImageName": lambda one: one.image,
    "DaemonName": lambda one: "docker",
    "ContainerID": lambda one: one.id,
    "ContainerName": lambda one: f"/{one.name}",
    "ContainerImageID": lambda one: one.image_id,
    "ContainerImageName": lambda one: one.image,
}


def tag(template: str, described: Described) -> str:
    """A tag's template filled in.

    Of Go's template language it knows fields, no functions. Raises Invalid in Go's words.
    """
    if "{{" in _ACTION.sub("", template):
        raise Invalid("template: log-tag:1: unclosed action")

    def fill(action: re.Match[str]) -> str:
        field = _FIELD.fullmatch(action[1])
        if field is None:
            raise Invalid(f"template: log-tag:1: this engine supports only fields in a tag, not {action[0]}")
        if field[1] not in _FIELDS:
            place = f"1:{action.start() + 2}"
            raise Invalid(
                f'template: log-tag:{place}: executing "log-tag" at <.{field[1]}>: '
                f"can't evaluate field {field[1]} in type *logger.Info"
            )
        return _FIELDS[field[1]](described)

    return _ACTION.sub(fill, template)


def extra(config: dict[str, str], described: Described) -> dict[str, str]:
    """The labels and variables that the options name, sorted. Raises Invalid for a bad pattern."""
    found: dict[str, str] = {}
    variables = dict(each.split("=", 1) for each in described.env if "=" in each)
    for option, values in (("labels", described.labels), ("env", variables)):
        names = config.get(option, "").split(",") if config.get(option) else []
        found |= {name: values[name] for name in names if name in values}
        if pattern := config.get(f"{option}-regex"):
            matches = automaton.Automaton([pattern]).found_in
            found |= {name: value for name, value in values.items() if matches(name)}
    return dict(sorted(found.items()))


def of(config: dict[str, str], described: Described) -> dict[str, str]:
    """All attributes of each line in a log of JSON lines; with a tag only if one was asked for. Raises Invalid."""
    found = extra(config, described)
    if config.get("tag"):
        found["tag"] = tag(config["tag"], described)
    return dict(sorted(found.items()))
