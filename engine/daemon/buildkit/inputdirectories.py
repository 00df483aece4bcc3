"""Trees of a client's graph that stand for its own directories: the context of a build, and that of its Dockerfile.

Runs on the thread that builds. A tree is made when it is asked for, and is open until the end of the build. What is in
it is the client's choice, so no .dockerignore leaves anything of it out, as with BuildKit.
"""

import contextlib
import posixpath
from collections.abc import Callable

from engine.daemon.builder.context import below, text_of
from engine.daemon.builder.graph.node import Input
from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.buildkit.contextfinding import Inputs
from engine.daemon.buildkit.progress import Progress
from engine.daemon.images.layers import merged
from engine.errors import EngineError, NotFound

CONTEXT, DOCKERFILE = "context", "dockerfile"


class InputDirectories:
    """Those of one build; a context manager. solve: gives the tree of an output; layer_root: has its layers

    subdir: the directory of the context's tree that is the context, empty for all of it
    """

    def __init__(
        self,
        inputs: Inputs,
        progress: Progress,
        layer_root: str,
        solve: Callable[[Input], Snapshot],
        subdir: str = "",
    ) -> None:
        self._inputs, self._progress, self._layer_root, self._solve = inputs, progress, layer_root, solve
        self._subdir = subdir
        self._held = contextlib.ExitStack()

    def __enter__(self) -> "InputDirectories":
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def context(self) -> int | None:
        """The descriptor of the context's root, None where the client's own directory is the context.

        Raises EngineErrors.
        """
        root = self._root(CONTEXT)
        return below(self._held, root, self._subdir) if root is not None and self._subdir else root

    def dockerfile(self, filename: str) -> bytes | None:
        """The Dockerfile, None where it is in the client's own directory. Raises EngineErrors."""
        if DOCKERFILE not in self._inputs:
            return None
        vertex = self._progress.vertex(f"[internal] load build definition from {posixpath.basename(filename)}")
        vertex.begin()
        try:
            text = self._text(filename)
        except EngineError as error:
            vertex.end(str(error))
            raise
        vertex.end()
        return text

    def _text(self, filename: str) -> bytes:
        root = self._root(DOCKERFILE)
        assert root is not None  # it is among the inputs
        try:
            return text_of(root, filename)
        except (OSError, ValueError) as error:
            raise NotFound(f"failed to read dockerfile: open {filename}: no such file or directory") from error

    def _root(self, name: str) -> int | None:
        if name not in self._inputs:
            return None
        wanted = self._inputs[name]()
        tree = self._solve(wanted) if wanted is not None else Snapshot()
        return self._held.enter_context(merged.held(self._layer_root, tree.layers))
