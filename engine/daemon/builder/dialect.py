"""The rules in which the two builders differ: one table, with what the classic builder does and what BuildKit does.

Pure. A build has one of the two as `Arguments.dialect`; whatever depends on the builder asks its row here.
"""

from collections.abc import Mapping

from engine.dataclass import dataclass, field

SANDBOX = "buildkitsandbox"
"""The name of the host that each command of a build by BuildKit sees, unless the build says another."""
_CLASSIC_REFUSALS = {
    "empty": "the Dockerfile ({}) cannot be empty",
    "stages": "no build stage in current context",
    "words": "no command specified",
}
_BUILDKIT_REFUSALS = {
    "empty": "the Dockerfile cannot be empty",
    "stages": "dockerfile contains no stages to build",
    "words": "failed to marshal LLB definition: arguments are required",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """A builder's rules, one row each. What a row has by itself is the classic builder's.

    Sources are in buildkit's frontend/dockerfile/dockerfile2llb and in moby's builder/dockerfile.
    arguments_in_turn: an ARG sets a variable where it stands: over an ENV before it, by its value there, and the next
    one of the same instruction sees it. Else ENV goes before ARG, and an instruction is expanded as a whole.
    Source: convert.go, dispatchArg; docs.docker.com/reference/dockerfile, ARG
    lone_platforms: an image that is for one platform alone serves for every other that a FROM names, with a warning.
    Source: convert.go, validateBaseImagePlatform; dispatchers.go
    other_systems: what stands on nothing may be for another system than Linux, as long as it runs nothing.
    Source: image.go, emptyImage; dispatchers.go, initializeStage
    commands_repeat: a RUN runs again after one that is the same and has changed nothing. Else the one before serves for
    it. Source: dispatchers.go, dispatchRun; buildkit, solver/edge.go
    empty_text: a RUN, CMD or ENTRYPOINT without words gives its shell an empty text. Else it gives it none.
    Source: convert.go, dispatchRun; dispatchers.go, dispatchRun
    targets_numbered: a target may be a stage's number. Else it is a name alone. Source: convert.go, resolveTarget;
    builder.go, build
    stages_needed: a stage is built only if the target stands on it or copies from it. Else all up to the target are.
    Source: convert.go, toDispatchState; builder.go, dispatchDockerfileWithCancellation
    stages_inherit: a stage that stands on another one has its ARGs and its author too. Else it has its image alone.
    Source: convert.go, dispatchState.init; evaluator.go, dispatchState.beginStage
    stage_names_exact: a FROM finds a stage only by its name in lower case. Else its case does not matter.
    Source: convert.go, addState; dispatchers.go, getFromImage
    stage_names_once: a second stage may not have the name of one before it. Else the later one is meant after it.
    Source: evaluator.go, checkStageNameAvailable; convert.go, addState
    stages_named_first: each FROM is checked before the first image is looked for, and names an image in its long or
    short form. Else each is checked in its turn, and may have an image's id. Source: convert.go, toDispatchState
    root_named: what stands on nothing has / as the working directory in its config.
    Source: image.go, emptyImage; evaluator.go, beginStage
    emulators_needed: a RUN for a platform whose programs the host cannot run is refused. Else it is tried.
    Source: buildkit, solver/llbsolver/ops/exec_binfmt.go; dispatchers.go, dispatchRun
    directories_owned: what a WORKDIR makes is its user's, and has the time that the client names. Else it is root's.
    Source: convert.go, dispatchWorkdir; dispatchers.go, dispatchWorkdir
    steps_silent: an ONBUILD and a label of the client are no steps in the history. Else every instruction is one.
    Source: convert.go, dispatchOnbuild and toDispatchState; dispatchers.go, dispatchOnbuild
    args_escaped: CMD says in the config that its arguments are escaped. Source: convert.go, dispatchCmd
    nops_shown: in the history, what runs nothing is a comment to the shell. Else it is as the Dockerfile has it.
    Source: internals.go, commit; convert.go, commitToHistory
    volumes_dropped: what a RUN leaves where the image has a volume is lost. Source: dispatchers.go, dispatchRun, by the
    volume that its container has there; docs.docker.com/reference/dockerfile, VOLUME
    insecure_steps: a RUN may ask for all rights, which the build is granted or not. Else none may.
    Source: convert_runsecurity.go; dispatchers.go, dispatchRun
    hostname: of a RUN's container, empty for one that is made up. Source: buildkit, executor/oci/hosts.go
    refusals: the words for a file that is empty, one without stages, and a command without words. Source: convert.go,
    toDispatchState; buildkit, client/llb/exec.go; moby, builder/dockerfile
    hidden_bases: a base that is pulled is no image of the client's: no list shows it, and it goes with the build cache.
    Source: buildkit, source/containerimage/source.go; moby, daemon/containerd/image_builder.go
    proxies_twice: a command has each proxy of the client in both spellings, over its ENV, and no other step sees them.
    Else a proxy is an argument that needs no ARG. Source: convert.go, proxyEnvFromBuildArgs
    """

    arguments_in_turn: bool = False
    lone_platforms: bool = False
    other_systems: bool = False
    commands_repeat: bool = True
    empty_text: bool = False
    targets_numbered: bool = True
    stages_needed: bool = False
    stages_inherit: bool = False
    stage_names_exact: bool = False
    stage_names_once: bool = True
    stages_named_first: bool = False
    root_named: bool = False
    emulators_needed: bool = False
    directories_owned: bool = False
    steps_silent: bool = False
    args_escaped: bool = False
    nops_shown: bool = True
    volumes_dropped: bool = True
    insecure_steps: bool = False
    hostname: str = ""
    refusals: Mapping[str, str] = field(default_factory=lambda: _CLASSIC_REFUSALS)
    hidden_bases: bool = False
    proxies_twice: bool = False


CLASSIC = Dialect()
BUILDKIT = Dialect(
    arguments_in_turn=True,
    lone_platforms=True,
    other_systems=True,
    commands_repeat=False,
    empty_text=True,
    targets_numbered=False,
    stages_needed=True,
    stages_inherit=True,
    stage_names_exact=True,
    stage_names_once=False,
    stages_named_first=True,
    root_named=True,
    emulators_needed=True,
    directories_owned=True,
    steps_silent=True,
    args_escaped=True,
    nops_shown=False,
    volumes_dropped=False,
    insecure_steps=True,
    hostname=SANDBOX,
    refusals=_BUILDKIT_REFUSALS,
    hidden_bases=True,
    proxies_twice=True,
)
