"""The stages of a Dockerfile: splits it at its FROMs, finds stages by name or number, and plans which of them to build.

Pure. `prepare` is where both builders begin: it reads the file, and finds all faults that can be found before a step.
"""

import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping

from engine.daemon.builder import namedcontexts
from engine.daemon.builder.arguments import Arguments
from engine.daemon.builder.dialect import CLASSIC, Dialect
from engine.daemon.builder.options import Options
from engine.daemon.dockerfile import commands, instructions, parser, scope, words
from engine.daemon.dockerfile.gotext import meant
from engine.daemon.dockerfile.parser import Dockerfile, Instruction
from engine.daemon.images import platform as platforms
from engine.dataclass import dataclass, replace
from engine.errors import Invalid
from engine.literals import natural

SCRATCH = "scratch"
_NONE = "no build stage in current context"


class NoTarget(Invalid):
    """The Dockerfile has no stage of the name that the client asks for."""


@dataclass(frozen=True, kw_only=True)
class Given(Instruction):
    """An instruction that the client has given beside the Dockerfile (a label). Its command is known."""

    command: commands.Command


@dataclass(frozen=True, slots=True)
class Stage:
    """One FROM and the steps that follow it.

    opening: the FROM as written; base: its image name with variables expanded
    base is None where its variables cannot be expanded. That fails only once the stage is begun.
    """

    index: int
    start: Instruction
    opening: commands.From
    base: str | None
    steps: tuple[Instruction, ...]

    @property
    def name(self) -> str:
        """The stage's name after AS, in lower case; may be empty."""
        return self.opening.name


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be built.

    arguments: the ARGs before the first FROM; every: all stages of the file, up to the target
    stages: those of them that are needed, in order
    """

    arguments: tuple[Instruction, ...]
    every: tuple[Stage, ...]
    stages: tuple[Stage, ...]

    @property
    def total(self) -> int:
        """How many steps there are, as the output counts them."""
        return len(self.arguments) + sum(1 + len(stage.steps) for stage in self.stages)


def prepare(
    dockerfile_text: bytes, name: str, options: Options, dialect: Dialect = CLASSIC
) -> tuple[Dockerfile, Plan, Arguments]:
    """Parse the Dockerfile, declare the ARGs before the first FROM, and plan the stages. Raises Invalid.

    This finds all errors that can be found before the first step.
    """
    if not dockerfile_text:
        raise Invalid(dialect.refusals["empty"].format(name))
    target = platforms.wanted(options.platform)
    dockerfile = namedcontexts.with_stages_replaced(parser.parse(dockerfile_text, name), options.contexts, str(target))
    stage = options.target or last_name(dockerfile)
    automatic = scope.platform_arguments(str(platforms.host()), target.whole, stage)
    given = {name: value for name in automatic if (value := options.args.get(name)) is not None}
    arguments = Arguments(options.args, automatic | given, dialect)
    for instruction in dockerfile.instructions:
        if instruction.keyword == "FROM":
            break
        if instruction.keyword == "ARG":
            _declare_before(instruction, arguments, dockerfile.escape)
    outer = arguments.of_from()
    found = plan(dockerfile, lambda text: words.expand(text, outer, dockerfile.escape), options.target, dialect)
    found = found if dialect.stages_needed else replace(found, stages=found.every)
    return dockerfile, _with_labels(found, options.labels), arguments


def _declare_before(instruction: Instruction, arguments: Arguments, escape: str) -> None:
    def expand(text: str) -> str:
        return words.expand(text, arguments.of_from(), escape)

    in_turn = arguments.dialect.arguments_in_turn
    command = instructions.read(instruction, None if in_turn else arguments.of_from(), escape)
    assert isinstance(command, commands.Arg)  # the keyword is ARG
    for name, default in command.pairs:
        arguments.declare_before(name, arguments.value(name, default, expand) if in_turn else default)


def _with_labels(plan: Plan, labels: dict[str, str]) -> Plan:
    """The plan with the client's labels added, each as a LABEL at the end of the last stage."""
    last = plan.every[-1]
    changed = replace(last, steps=(*last.steps, *(_label(name, labels[name]) for name in sorted(labels))))
    return Plan(plan.arguments, (*plan.every[:-1], changed), (*plan.stages[:-1], changed))


def _label(name: str, value: str) -> Instruction:
    text = f"{name}={value}"
    return Given("LABEL", 0, 0, (), text, f"LABEL {text}", command=commands.Label(((name, value),)))


def plan(dockerfile: Dockerfile, expand: Callable[[str], str], target: str, dialect: Dialect = CLASSIC) -> Plan:
    """The plan for a target: a stage's name, perhaps its number, or empty for the last stage.

    expand: puts in the values of the arguments before the first FROM, raises Invalid. Raises Invalid.
    """
    before, groups = _split(dockerfile)
    if not groups:
        raise Invalid(dialect.refusals["stages"])
    every = tuple(_stage(index, group, expand) for index, group in enumerate(groups))
    known = Earlier(every)
    last = (known.find if dialect.targets_numbered else known.named)(target, len(every)) if target else every[-1]
    if last is None:
        near = "" if dialect.targets_numbered else meant(target, (stage.name for stage in every if stage.name))
        raise NoTarget(f'target stage "{target}" could not be found{near}')
    every = every[: last.index + 1]
    needed = _needed(every)
    return Plan(before, every, tuple(stage for stage in every if stage.index in needed))


class Earlier:
    """Finds stages by name or number among those before another one; of several with that name it is the last one."""

    def __init__(self, every: tuple[Stage, ...], dialect: Dialect = CLASSIC) -> None:
        self._every, self._exact = every, dialect.stage_names_exact
        self._numbers = _numbers(every)

    def find(self, name: str, index: int) -> Stage | None:
        """The last stage of that name before this one, or else that of that number; None for any other image."""
        number = natural(name, index - 1)
        found = self.named(name, index)
        return found if found is not None or number is None else self._every[number]

    def below(self, name: str, index: int) -> Stage | None:
        """The stage that a FROM of this name stands on; None for any other image."""
        return None if self._exact and name != name.lower() else self.named(name, index)

    def named(self, name: str, index: int) -> Stage | None:
        """The last stage of that name before this one; None for any other image."""
        before = _before(self._numbers, name, index)
        return self._every[before[0]] if before else None


def last_name(dockerfile: Dockerfile) -> str:
    """The name of the last stage, in lower case; empty where it has none."""
    last = next((one for one in reversed(dockerfile.instructions) if one.keyword == "FROM"), None)
    return last.arguments[2].lower() if last is not None and len(last.arguments) == 3 else ""


def _split(dockerfile: Dockerfile) -> tuple[tuple[Instruction, ...], list[list[Instruction]]]:
    before: list[Instruction] = []
    groups: list[list[Instruction]] = []
    for instruction in dockerfile.instructions:
        if instruction.keyword == "FROM":
            groups.append([instruction])
        elif groups:
            groups[-1].append(instruction)
        elif instruction.keyword == "ARG":
            before.append(instruction)
        else:
            raise Invalid(_NONE)
    return tuple(before), groups


def _stage(index: int, group: list[Instruction], expand: Callable[[str], str]) -> Stage:
    opening = instructions.read(group[0])
    assert isinstance(opening, commands.From)  # as the keyword says
    try:
        base = expand(opening.image) or None
    except Invalid:
        base = None
    return Stage(index, group[0], opening, base, tuple(group[1:]))


def reached(last: int, below: Callable[[int], Iterable[int]]) -> set[int]:
    """The numbers of a stage and of all that it depends on. below: gives those that one stands on or copies from"""
    found: set[int] = set()
    waiting = [last]
    while waiting:
        index = waiting.pop()
        if index not in found:
            found.add(index)
            waiting += below(index)
    return found


def _needed(every: tuple[Stage, ...]) -> set[int]:
    """The numbers of the last stage and of all stages that it depends on."""
    numbers = _numbers(every)

    def below(index: int) -> Iterator[int]:
        stage = every[index]
        yield from _before(numbers, stage.base or "", index)
        looked_at = set(_looked_at(stage))
        if any("$" in name for name in looked_at):
            yield from range(index)  # a variable, which only the step itself can expand
        for name in looked_at:
            number = natural(name, index - 1)
            yield from _before(numbers, name, index) or ([] if number is None else [number])

    return reached(every[-1].index, below)


def _numbers(every: tuple[Stage, ...]) -> dict[str, list[int]]:
    """The numbers of the stages of each name, in order."""
    found: dict[str, list[int]] = {}
    for stage in every:
        found.setdefault(stage.name, []).append(stage.index)
    return found


def _before(numbers: Mapping[str, list[int]], name: str, index: int) -> list[int]:
    """The number of the last stage of that name before another stage; none for any other image."""
    known = numbers.get(name.lower(), []) if name else []
    place = bisect.bisect_left(known, index)
    return known[place - 1 : place] if place else []


def _looked_at(stage: Stage) -> Iterator[str]:
    """The names that the --from of a stage's steps have: stages or images."""
    for step in stage.steps:
        if step.keyword == "COPY":
            yield from (value for name, value in step.flags if name == "from" and value)
        elif step.keyword == "RUN":
            command = instructions.read(step)
            assert isinstance(command, commands.Run)  # as the keyword says
            for mount in command.mounts:
                if mount.from_:
                    yield mount.from_
