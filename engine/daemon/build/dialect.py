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
    proxies_twice: a command has each proxy of the client in both spellings, over its ENV, and no other step sees them.
    Else a proxy is an argument that needs no ARG. Source: buildkit, dockerfile2llb/convert.go, proxyEnvFromBuildArgs
    """

    arguments_in_turn: bool
    proxies_twice: bool


CLASSIC = Dialect(arguments_in_turn=False, proxies_twice=False)
BUILDKIT = Dialect(arguments_in_turn=True, proxies_twice=True)
