"""Finds the trees of a Dockerfile that a bill of materials is about beside the result: of stages, and of the context.

Pure. Arguments of the file say which (buildkit, docs/attestations/sbom.md). A stage that the result does not need is
never among them.
"""

from engine.daemon.builder import stages
from engine.daemon.builder.arguments import SCAN_CONTEXT, SCAN_STAGE
from engine.daemon.builder.converting import Conversion
from engine.daemon.builder.graph.node import Input, Node
from engine.daemon.builder.localtree import LocalTree
from engine.daemon.builder.stages import Stage
from engine.dataclass import dataclass, field

_CONTEXT = "context"


@dataclass(slots=True)
class ScanTargets:
    """trees: by their names, None for one without files; fresh: one of these or the result is made without the cache"""

    trees: dict[str, Input | None] = field(default_factory=dict)
    fresh: bool = False


def find(conversion: Conversion) -> ScanTargets:
    """Those of a file whose last stage is converted."""
    last = conversion.plan.every[-1]
    target = conversion.built[last.index]
    found = ScanTargets(fresh=target.fresh)
    needed = stages.reached(last.index, lambda index: conversion.needs.get(index, ()))
    for index in sorted(needed - {last.index}):
        stage, built = conversion.plan.every[index], conversion.built[index]
        if built.state.arguments.turns_on(SCAN_STAGE, _name(stage)):
            found.trees[_name(stage)] = built.tree
            found.fresh = found.fresh or built.fresh
    if target.state.arguments.turns_on(SCAN_CONTEXT, _name(last)):
        context = conversion.context
        loading = () if context.loading is None else (context.loading,)
        found.trees.setdefault(_CONTEXT, Node(LocalTree(context, ""), loading).output())
    return found


def _name(stage: Stage) -> str:
    return stage.name or f"stage-{stage.index}"
