"""Judges what a build is of, before any of it is asked for: its context and its Dockerfile, by the client's policies.

Belongs to the build's thread. A directory of the client that becomes another one is asked for under that name, a URL
that becomes another one is downloaded from there, and what becomes something else is a tree of the graph.
"""

import json
from collections.abc import Callable

from engine.daemon.builder import sourcechecks, urls
from engine.daemon.builder.graph.node import Input
from engine.daemon.builder.sourcechecks import CHECKSUM, FILENAME, LOCAL, WEB, SourceChecks
from engine.daemon.builder.sourcepolicies import Source
from engine.daemon.buildkit.contextfinding import Inputs
from engine.daemon.buildkit.inputdirectories import CONTEXT, DOCKERFILE
from engine.daemon.buildkit.wishes import Asked

_FILE = "context"  # what the file of a URL is called


def judged(checks: SourceChecks, asked: Asked, inputs: Inputs, session: str) -> Inputs:
    """The trees that stand for the context and the Dockerfile; other changes are made in `asked`.

    session: id of the build's own. Raises Forbidden for a source that is denied, Invalid, NotBuilt.
    """
    if asked.own_dockerfile:  # which a directory of the client has, whatever the inputs are
        inputs = {name: each for name, each in inputs.items() if name != DOCKERFILE}
    if not checks.active:
        return inputs
    trees: dict[str, Callable[[], Input | None]] = {}
    if asked.context:
        found = _remote(checks, asked)
        if found is not None:
            trees[CONTEXT] = trees[DOCKERFILE] = lambda: checks.tree(found, "")
    elif CONTEXT not in inputs:
        _local(checks, asked, "context_key", CONTEXT, session, trees)
    if asked.own_dockerfile:
        trees.pop(DOCKERFILE, None)
    if DOCKERFILE not in inputs and (asked.own_dockerfile or not (asked.context or DOCKERFILE in trees)):
        _local(checks, asked, "dockerfile_key", DOCKERFILE, session, trees)
    return {**inputs, **trees}


def _remote(checks: SourceChecks, asked: Asked) -> Source | None:
    """What the context is a tree of; None where it is what its URL gives."""
    source = sourcechecks.of_url(asked.context, asked.keep_git_dir, _FILE)
    found = checks.judged(source)
    if found == source:
        return None
    more = {key: value for key, value in found.attributes.items() if key not in (CHECKSUM, FILENAME)}
    if urls.repository(asked.context) is None and found.kind in WEB and not more:
        asked.context, asked.checksum = found.identifier, found.attributes.get(CHECKSUM, "")
        return None
    asked.context = ""
    return found


def _local(
    checks: SourceChecks,
    asked: Asked,
    key: str,
    name: str,
    session: str,
    trees: dict[str, Callable[[], Input | None]],
) -> None:
    """Judge a directory of the client. key: of `asked`, where its name is; name: of the input that may stand for it"""
    directory: str = getattr(asked, key)
    attributes = {"local.session": asked.sessions.get(directory, session), "local.sharedkeyhint": directory}
    if name == DOCKERFILE:
        files = [asked.filename, f"{asked.filename}.dockerignore"]
        attributes |= {"local.followpaths": json.dumps(files), "local.differ": "none"}
    source = Source(f"{LOCAL}://{directory}", attributes)
    found = checks.judged(source)
    if found.kind == LOCAL and found.attributes == source.attributes:
        setattr(asked, key, found.name)
    elif found != source:
        trees[name] = lambda: checks.tree(found, "")
