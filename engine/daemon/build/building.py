"""Runs one image build, its needed stages one after the other with ONBUILD triggers, and holds the steps' shared state.

Runs on the request's thread. `steps` has the function for each kind of instruction.
"""

from engine.daemon.build import bases, namedcontexts, stages, steps
from engine.daemon.build.arguments import Arguments
from engine.daemon.build.cache import Cache
from engine.daemon.build.context import Context
from engine.daemon.build.dialect import CLASSIC, Dialect
from engine.daemon.build.graph.node import Input, Node
from engine.daemon.build.graph.solver import Solver
from engine.daemon.build.graph.work import Caller
from engine.daemon.build.localtree import Local
from engine.daemon.build.options import Options
from engine.daemon.build.output import Output, Step
from engine.daemon.build.pulled import Pulled
from engine.daemon.build.stages import SCRATCH, Plan, Stage
from engine.daemon.build.state import Given, Maker, State
from engine.daemon.build.stepnodes import Surroundings
from engine.daemon.dockerfile import commands, instructions, parser, scope, words
from engine.daemon.dockerfile.parser import Dockerfile, Instruction
from engine.daemon.images import platform as platforms
from engine.daemon.images.image import Image
from engine.daemon.parts import ContainerParts
from engine.dataclass import dataclass, field
from engine.errors import EngineError, Invalid, SystemFailure
from engine.kernel import reasons
from engine.literals import natural

# The escape character of an ONBUILD trigger: a trigger is a text of its own, which the Dockerfile's escape directive
# does not reach.
_ESCAPE = "\\"
_NO_TRIGGERS = ("FROM", "ONBUILD", "MAINTAINER")


class NothingMade(Invalid):
    """The Dockerfile makes no image."""


@dataclass(slots=True)
class Build:
    """The state that the steps of one build share.

    caller: who waits; solver: solves the nodes that steps are made of
    built: number of a stage → the image that it has made, None for no image
    fresh: images that this build has pulled
    number: of the step that was announced last; current: number of the stage that is being built
    """

    engine: ContainerParts
    options: Options
    context: Context
    output: Output
    caller: Caller
    maker: Maker
    cache: Cache
    solver: Solver
    dockerfile: Dockerfile
    plan: Plan
    arguments: Arguments
    built: dict[int, Image | None] = field(default_factory=dict)
    fresh: bases.Fresh = field(default_factory=dict)
    number: int = 0
    current: int = 0

    def run(self) -> Image:
        """Build the stages of the plan, and return the image of the last one.

        Raises Invalid where it has made none.
        """
        for instruction in self.plan.arguments:
            self._announce(instruction, None)
        for stage in self.plan.stages:
            if stage.index not in self.built:
                self._stage(stage)
        image = self.built[self.plan.every[-1].index]
        if image is None:
            raise NothingMade("No image was generated. Is your Dockerfile empty?")
        return image

    def _announce(self, instruction: Instruction, stage: int | None) -> None:
        self.number += 1
        text, keyword = instruction.original, instruction.keyword
        where = instruction.line, instruction.last_line
        self.output.step(Step(self.number, self.plan.total, text, keyword, *where, stage))

    def _stage(self, stage: Stage) -> None:
        self._announce(stage.start, stage.index)
        if stage.name and any(other.name == stage.name for other in self.plan.every[: stage.index]):
            raise Invalid(f"{stage.name} stage name already used")
        self.current = stage.index
        state = self._opened(stage)
        self.output.stands_on(state.identity)
        for instruction in stage.steps:
            self._announce(instruction, stage.index)
            self._take(state, instruction, state.escape)
            self.output.stands_on(state.identity)
        self.built[stage.index] = state.image
        if state.image is not None:
            self.output.image(state.identity)

    def _opened(self, stage: Stage) -> State:
        """Begin a stage: find its base image, set PATH, and run the ONBUILD triggers of the base."""
        outer = self.arguments.of_from()
        base = words.expand(stage.opening.image, outer, self.dockerfile.escape)
        if not base:
            raise Invalid(f"base name ({stage.opening.image}) should not be blank")
        platform = words.expand(stage.opening.platform, outer, self.dockerfile.escape) or self.options.platform
        wanted = platforms.parse(platform) if platform else platforms.host()
        state = State(self.arguments.of_stage(), wanted, self.dockerfile.escape)
        if base == SCRATCH:
            state.begin_with_nothing()
            return state
        below = stages.named(self.plan.every[: stage.index], base)
        image = self.stage_image(below) if below else self._image(base, platform)
        if image is None:  # the base is a stage that has made no image
            state.set_path()
            return state
        self.maker.hold(image)
        triggers = state.begin(image)
        state.set_path()
        if triggers:
            self._trigger(state, triggers)
        return state

    def _trigger(self, state: State, triggers: list[str]) -> None:
        """Run the base image's ONBUILD triggers before the stage's own steps."""
        self.output.note(f"# Executing {len(triggers)} build trigger")
        if len(triggers) > 1:
            self.output.note("s")
        self.output.note("\n")
        for trigger in triggers:
            read = parser.statement(trigger)
            if read.keyword in _NO_TRIGGERS:
                raise Invalid(f"{read.keyword} isn't allowed as an ONBUILD trigger")
            self._take(state, read, _ESCAPE)

    def _take(self, state: State, instruction: Instruction, escape: str) -> None:
        try:
            steps.take(self, state, instruction, escape)
        except OSError as error:  # an error of the host's kernel becomes an error in words
            raise SystemFailure(f"{instruction.keyword} failed: {reasons.of(error)}") from error

    def check(self) -> None:
        """Raise once the client is gone."""
        self.caller.check()

    def around(self) -> Surroundings:
        """What the nodes of all steps have in common."""
        local = Local(self.context.root, f"context {self.context.root}")
        # A client that names images with `cachefrom` wants no results of other builds.
        fresh = self.options.no_cache or bool(self.options.cache_from)
        return Surroundings(local, self._tree, self.options.host, fresh)

    def _tree(self, name: str) -> Input | None:
        image = self.source(name)
        return None if image is None else Node(Pulled(image, name)).output()

    def stage_image(self, stage: Stage) -> Image | None:
        """The image that an earlier stage has made. A stage that the plan did not see to be needed is built now."""
        if stage.index not in self.built:
            current = self.current
            self._stage(stage)
            self.current = current
        return self.built[stage.index]

    def _image(self, name: str, platform: str) -> Image:
        return bases.find(self.engine, name, platform, self.options, self.output.line, self.fresh, self.caller.gone)

    def source(self, name: str) -> Image | None:
        """The image that `--from` names: an earlier stage by name or number, or an image. None for nothing.

        Raises Invalid.
        """
        earlier = self.plan.every[: self.current]
        stage = stages.find(earlier, name)
        if stage is not None:
            return self.stage_image(stage)
        if name.isascii() and name.removeprefix("-").isdigit():
            same = natural(name, self.current) == self.current
            fault = "refers to current build stage" if same else "index out of bounds"
            raise Invalid(f"invalid from flag value {name}: {fault}")
        if name.lower() == SCRATCH:
            return None
        try:
            image = self._image(name, self.options.platform)
        except EngineError as error:
            raise type(error)(f"invalid from flag value {name}: {error}") from error
        self.maker.hold(image)
        return image


def prepare(
    dockerfile_text: bytes, name: str, options: Options, dialect: Dialect = CLASSIC
) -> tuple[Dockerfile, Plan, Arguments]:
    """Parse the Dockerfile, declare the ARGs before the first FROM, and plan the stages. Raises Invalid.

    This finds all errors that can be found before the first step.
    """
    if not dockerfile_text:
        raise Invalid(dialect.refusals["empty"].format(name))
    target = platforms.parse(options.platform) if options.platform else platforms.host()
    dockerfile = namedcontexts.with_stages_replaced(parser.parse(dockerfile_text, name), options.contexts, str(target))
    stage = options.target or stages.last_name(dockerfile)
    automatic = scope.platform_arguments(str(platforms.host()), target.whole, stage)
    given = {name: value for name in automatic if (value := options.args.get(name)) is not None}
    arguments = Arguments(options.args, automatic | given, dialect)
    for instruction in dockerfile.instructions:
        if instruction.keyword == "FROM":
            break
        if instruction.keyword == "ARG":
            _declare_before(instruction, arguments, dockerfile.escape)
    outer = arguments.of_from()
    plan = stages.plan(dockerfile, lambda text: words.expand(text, outer, dockerfile.escape), options.target, dialect)
    return dockerfile, _with_labels(plan, options.labels), arguments


def _declare_before(instruction: Instruction, arguments: Arguments, escape: str) -> None:
    def expand(text: str) -> str:
        return words.expand(text, arguments.of_from(), escape)

    in_turn = arguments.dialect.arguments_in_turn
    command = instructions.read(instruction, None if in_turn else expand)
    assert isinstance(command, commands.Arg)  # the keyword is ARG
    for name, default in command.pairs:
        arguments.declare_before(name, arguments.value(name, default, expand) if in_turn else default)


def _with_labels(plan: Plan, labels: dict[str, str]) -> Plan:
    """The plan with the client's labels added, each as a LABEL at the end of the last stage."""
    if not labels:
        return plan
    last = plan.every[-1]
    added = tuple(_label(name, labels[name]) for name in sorted(labels))
    changed = Stage(last.index, last.start, last.opening, last.base, (*last.steps, *added))
    return Plan(plan.arguments, (*plan.every[:-1], changed), (*plan.stages[:-1], changed))


def _label(name: str, value: str) -> Instruction:
    text = f"{name}={value}"
    return Given("LABEL", 0, 0, (), text, f"LABEL {text}", command=commands.Label(((name, value),)))
