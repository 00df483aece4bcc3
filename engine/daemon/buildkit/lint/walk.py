"""Goes through a Dockerfile as a build would, up to its first fault, and notes what the rules judge.

Pure, but for the function that it is given to look at base images with. The work is bounded: variables may grow to so
many characters in all, and only so many unknown ones are noted.
"""

import itertools
from collections.abc import Callable, Collection, Mapping

from engine.daemon.builder import namedcontexts, stages
from engine.daemon.buildkit.lint.review import SCRATCH, Around, Declared, Opened, Review, Seen, Undefined
from engine.daemon.dockerfile import commands, instructions, parser, scope, words
from engine.daemon.dockerfile.commands import Command
from engine.daemon.dockerfile.gotext import meant
from engine.daemon.dockerfile.statements import Dockerfile, Instruction, Misplaced
from engine.daemon.images import platform as platforms
from engine.dataclass import dataclass, field
from engine.errors import EngineError, Invalid

_PATH = "PATH"
_ONCE = ("CMD", "ENTRYPOINT", "HEALTHCHECK")
_COPIED = 16  # as many of them does it count for that a stage takes over one variable
# So many variables that are not set are noted, each with so many of those that are.
_MOST_UNDEFINED = 500
_MOST_KNOWN = 1000


def review(data: bytes, around: Around) -> Review:
    """Read the file. Its faults are part of what is returned."""
    found = Review(around)
    try:
        found.dockerfile = dockerfile = parser.statements(data)
        for one in dockerfile.instructions:
            try:
                instructions.read(one)
            except Invalid as error:
                raise parser.misplaced(one, error) from error
            found.read.append(one)
        found.whole = True
        platform = str(platforms.wanted(around.platform))
        _Walk(found, namedcontexts.with_stages_replaced(dockerfile, around.contexts, platform)).run()
    except Misplaced as error:
        found.fault = error
    return found


@dataclass(slots=True)
class _Stage:
    """The state of one stage: its variables, and what its instructions have set."""

    variables: dict[str, str]
    declared: set[str] = field(default_factory=set)
    shell: bool = False
    anchored: bool = False
    before: dict[str, Instruction] = field(default_factory=dict)


class _Variables(words.Counted):
    """Variables that note which names are looked up."""

    def __init__(self, values: Mapping[str, str], growth: words.Growth) -> None:
        super().__init__(values, growth)
        self.found: dict[str, None] = {}
        self.missing: dict[str, None] = {}

    def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]
        """The value; the name is noted, and the value counted."""
        (self.missing if self._values.get(name) is None else self.found)[name] = None
        return super().get(name, default)


class _Walk:
    """Goes through the stages in their order."""

    def __init__(self, found: Review, dockerfile: Dockerfile) -> None:
        self._found, self._dockerfile = found, dockerfile
        self._around, self._escape = found.around, dockerfile.escape
        self._growth = words.Growth()
        self._given = {name: value for name, value in self._around.args.items() if value is not None}
        host = platforms.host()
        self._target = platforms.wanted(self._around.platform)
        stage = self._around.target or stages.last_name(dockerfile)
        automatic = scope.platform_arguments(str(host), str(self._target), stage)
        self._automatic = {name: self._given.get(name, value) for name, value in automatic.items()}
        self._outer: dict[str, str] = {}
        self._stages: dict[int, _Stage] = {}
        self._names: dict[str, int] = {}
        self._noted = 0

    def run(self) -> None:
        """Raises Misplaced for the first fault."""
        first, *_ = (*(one for one in self._dockerfile.instructions if one.keyword == "FROM"), None)
        before = []
        for one in self._dockerfile.instructions:
            if one.keyword == "FROM":
                break
            if one.keyword != "ARG":
                raise Misplaced(*_twice("no build stage in current context"), one.line, one.last_line)
            before.append(one)
        if first is None:
            raise Misplaced(*_twice("dockerfile contains no stages to build"), 1, 1)
        self._outer = self._arguments(before, {})
        self._found.by_default = self._by_default(self._outer)
        self._outer = self._arguments(before, self._given)
        plan = self._plan()
        self._found.stages = plan.every
        needed = {stage.index for stage in (plan.every if self._around.every else plan.stages)}
        for stage in plan.every:
            self._open(stage)
        for stage in plan.every:
            if stage.index in needed:
                self._steps(stage)

    def _arguments(self, before: list[Instruction], given: Mapping[str, str]) -> dict[str, str]:
        """The arguments before the first FROM, the client's values in the place of their defaults."""
        values = dict(self._automatic)
        for one in before:
            with _placed(one):
                for name, default in _arg(instructions.read(one)):
                    noted = _Variables(values, self._growth)
                    value = given.get(name)
                    if value is None and default is not None:
                        value = words.expand(default, noted, self._escape)
                    if value is not None:
                        values[name] = value
                    self._found.arguments[name] = Declared(name, value, one, frozenset(noted.found))
        return values

    def _by_default(self, values: dict[str, str]) -> list[tuple[Instruction, commands.From, str]] | None:
        made = []
        for one in self._dockerfile.instructions:
            if one.keyword != "FROM":
                continue
            opening = instructions.read(one)
            assert isinstance(opening, commands.From)  # as the keyword says
            try:
                name = words.expand(opening.image, _Variables(values, self._growth), self._escape)
            except Invalid:
                return None
            made.append((one, opening, name))
        return made

    def _plan(self) -> stages.Plan:
        def expand(text: str) -> str:
            return words.expand(text, _Variables(self._outer, self._growth), self._escape)

        try:
            return stages.plan(self._dockerfile, expand, self._around.target)
        except Invalid as error:
            raise Misplaced(*_twice(str(error)), 1, 1) from error

    def _open(self, stage: stages.Stage) -> None:
        """Read a FROM."""
        seen = Opened(stage.index, stage.start, stage.opening)
        self._found.opened.append(seen)
        with _placed(stage.start):
            name = self._expanded_from(seen, stage.opening.image)
            if not name:
                raise Invalid(f"base name ({stage.opening.image}) should not be blank")
            if stage.opening.platform:
                seen.platform = self._expanded_from(seen, stage.opening.platform)
                if not seen.platform:
                    raise Invalid(f"empty platform value from expression {stage.opening.platform}{_asked(seen)}")
                try:
                    platforms.parse(seen.platform)
                except Invalid as error:
                    text = f"failed to parse platform {stage.opening.platform}: {error}{_asked(seen)}"
                    raise Invalid(text) from error

    def _expanded_from(self, seen: Opened, text: str) -> str:
        noted = _Variables(self._outer, self._growth)
        value = words.expand(text, noted, self._escape)
        declared = self._found.arguments.keys()
        seen.undefined += self._unknown(noted, declared, lambda: self._outer.keys() | declared)
        seen.taken |= noted.found.keys()
        if text == seen.opening.platform:
            seen.used = frozenset(noted.found) if not noted.missing else frozenset()
        return value

    def _begun(self, stage: stages.Stage) -> _Stage:
        base = self._stages.get(self._names.get((stage.base or "").lower(), -1))
        if stage.name:
            self._names[stage.name] = stage.index
        if base is not None:
            with _placed(stage.start):
                self._growth.take(_COPIED * (len(base.variables) + len(base.declared)))
            return _Stage(dict(base.variables), set(base.declared), base.shell, base.anchored)
        made = _Stage({})
        if stage.base and stage.base != SCRATCH:
            self._look(stage, made)
        made.variables.setdefault(_PATH, "")
        return made

    def _look(self, stage: stages.Stage, made: _Stage) -> None:
        opened = self._found.opened[stage.index]
        with _placed(stage.start):
            try:
                document = self._around.image(stage.base or "", opened.platform or self._around.platform)
            except EngineError as error:
                raise Invalid(str(error)) from error
        if document:
            opened.expected = str(platforms.parse(opened.platform) if opened.platform else self._target)
            opened.actual = str(platforms.of(document))
        config = document.get("config") or {}
        made.variables.update(each.partition("=")[::2] for each in config.get("Env") or ())
        made.shell = bool(config.get("Shell"))

    def _steps(self, stage: stages.Stage) -> None:
        state = self._stages[stage.index] = self._begun(stage)
        for one in stage.steps:
            with _placed(one):
                seen = self._seen(stage.index, one, state)
                self._found.steps.append(seen)
                self._set(seen, state)

    def _seen(self, stage: int, one: Instruction, state: _Stage) -> Seen:
        noted = _Variables(state.variables, self._growth)
        # An ARG's default counts only where the client gives no value. Of a port's variables BuildKit does not tell.
        seen, ports = None if one.keyword == "ARG" else noted, _Variables(state.variables, self._growth)
        command = instructions.read(one, seen, self._escape, ports)
        undefined = self._unknown(noted, state.declared, state.variables.keys)
        return Seen(stage, one, command, undefined, [], state.shell, state.anchored)

    def _unknown(
        self, noted: _Variables, declared: Collection[str], known: Callable[[], Collection[str]]
    ) -> list[Undefined]:
        missing = [name for name in noted.missing if name not in declared][: _MOST_UNDEFINED - self._noted]
        self._noted += len(missing)
        told = tuple(itertools.islice(sorted(known()), _MOST_KNOWN)) if missing else ()
        return [Undefined(name, told) for name in missing]

    def _set(self, seen: Seen, state: _Stage) -> None:
        """What the instruction changes for those after it."""
        keyword, command = seen.instruction.keyword, seen.command
        if keyword in _ONCE:
            seen.earlier = state.before.get(keyword)
            state.before[keyword] = seen.instruction
        if isinstance(command, commands.Env):
            state.variables.update(command.pairs)
        elif isinstance(command, commands.Workdir):
            state.anchored = True
        elif isinstance(command, commands.Shell):
            state.shell = True
        elif isinstance(command, commands.Arg):
            for name, default in command.pairs:
                self._declare(seen, state, name, default)

    def _declare(self, seen: Seen, state: _Stage, name: str, default: str | None) -> None:
        value = self._given.get(name)
        uses: frozenset[str] = frozenset()
        inherited = value is None and default is None and name in self._outer
        if inherited:
            value = self._outer[name]
        elif value is None and default is not None:
            noted = _Variables(state.variables, self._growth)
            value = words.expand(default, noted, self._escape)
            uses = frozenset(noted.found)
            seen.undefined += self._unknown(noted, state.declared, state.variables.keys)
        if value is not None:
            state.variables[name] = value
        state.declared.add(name)
        seen.declared.append(Declared(name, value, seen.instruction, uses, inherited))


class _placed:
    """Gives an Invalid the place of an instruction."""

    def __init__(self, one: Instruction) -> None:
        self._one = one

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, Invalid) and not isinstance(error, Misplaced):
            raise Misplaced(*_twice(str(error)), self._one.line, self._one.last_line) from error


def _asked(seen: Opened) -> str:
    """What the unknown arguments of a FROM may have meant, in words."""
    return next((text for one in seen.undefined if (text := meant(one.name, one.known))), "")


def _twice(text: str) -> tuple[str, str]:
    return text, text


def _arg(command: Command) -> tuple[tuple[str, str | None], ...]:
    assert isinstance(command, commands.Arg)  # as the keyword says
    return command.pairs
