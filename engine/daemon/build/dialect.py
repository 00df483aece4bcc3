"""The rules in which the two builders differ: one table, with what the classic builder does and what BuildKit does.

Pure. A build has one of the two as `Arguments.dialect`; whatever depends on the builder asks its row here.
"""

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
    proxies_twice: a command has each proxy of the client in both spellings, over its ENV, and no other step sees them.
    Else a proxy is an argument that needs no ARG. Source: buildkit, dockerfile2llb/convert.go, proxyEnvFromBuildArgs
    """

    arguments_in_turn: bool
    lone_platforms: bool
    other_systems: bool
    proxies_twice: bool


CLASSIC = Dialect(arguments_in_turn=False, lone_platforms=False, other_systems=False, proxies_twice=False)
BUILDKIT = Dialect(arguments_in_turn=True, lone_platforms=True, other_systems=True, proxies_twice=True)
