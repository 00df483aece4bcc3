"""The rules in which the two builders differ: one table, with what the classic builder does and what BuildKit does.

Pure. A build has one of the two as `Arguments.dialect`; whatever depends on the builder asks its row here.
"""

from collections.abc import Mapping

from engine.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Dialect:
    """A builder's rules, one row each.

    arguments_in_turn: an ARG sets a variable where it stands: over an ENV before it, by its value there, and the next
    one of the same instruction sees it. Else ENV goes before ARG, and an instruction is expanded as a whole.
    Source: buildkit, dockerfile2llb/convert.go, dispatchArg; docs.docker.com/reference/dockerfile, ARG
    lone_platforms: an image that is for one platform alone serves for every other that a FROM names, with a warning.
    Source: buildkit, dockerfile2llb/convert.go, validateBaseImagePlatform; moby, builder/dockerfile/dispatchers.go
    other_systems: what stands on nothing may be for another system than Linux, as long as it runs nothing.
    Source: buildkit, dockerfile2llb/image.go, emptyImage; moby, builder/dockerfile/dispatchers.go, initializeStage
    commands_repeat: a RUN runs again after one that is the same and has changed nothing. Else the one before serves for
    it. Source: moby, builder/dockerfile/dispatchers.go, dispatchRun; buildkit, solver/edge.go
    empty_text: a RUN, CMD or ENTRYPOINT without words gives its shell an empty text. Else it gives it none.
    Source: buildkit, dockerfile2llb/convert.go, dispatchRun; moby, builder/dockerfile/dispatchers.go, dispatchRun
    targets_numbered: a target may be a stage's number. Else it is a name alone. Source: buildkit,
    dockerfile2llb/convert.go, resolveTarget; moby, builder/dockerfile/builder.go, build
    stage_names_exact: a FROM finds a stage only by its name in lower case. Else its case does not matter.
    Source: buildkit, dockerfile2llb/convert.go, addState; moby, builder/dockerfile/dispatchers.go, getFromImage
    refusals: the words for a file that is empty, one without stages, and a command without words. Source: buildkit,
    dockerfile2llb/convert.go, toDispatchState, and client/llb/exec.go; moby, builder/dockerfile
    hidden_bases: a base that is pulled is no image of the client's: no list shows it, and it goes with the build cache.
    Source: buildkit, source/containerimage/source.go; moby, daemon/containerd/image_builder.go
    proxies_twice: a command has each proxy of the client in both spellings, over its ENV, and no other step sees them.
    Else a proxy is an argument that needs no ARG. Source: buildkit, dockerfile2llb/convert.go, proxyEnvFromBuildArgs
    """

    arguments_in_turn: bool
    lone_platforms: bool
    other_systems: bool
    commands_repeat: bool
    empty_text: bool
    targets_numbered: bool
    stage_names_exact: bool
    refusals: Mapping[str, str]
    hidden_bases: bool
    proxies_twice: bool


CLASSIC = Dialect(
    arguments_in_turn=False,
    lone_platforms=False,
    other_systems=False,
    commands_repeat=True,
    empty_text=False,
    targets_numbered=True,
    stage_names_exact=False,
    refusals={
        "empty": "the Dockerfile ({}) cannot be empty",
        "stages": "no build stage in current context",
        "words": "no command specified",
    },
    hidden_bases=False,
    proxies_twice=False,
)
BUILDKIT = Dialect(
    arguments_in_turn=True,
    lone_platforms=True,
    other_systems=True,
    commands_repeat=False,
    empty_text=True,
    targets_numbered=False,
    stage_names_exact=True,
    refusals={
        "empty": "the Dockerfile cannot be empty",
        "stages": "dockerfile contains no stages to build",
        "words": "failed to marshal LLB definition: arguments are required",
    },
    hidden_bases=True,
    proxies_twice=True,
)
