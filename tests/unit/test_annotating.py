"""The stand-ins for names of `typing`: an annotation is evaluated with them, and a daemon loads no `typing`."""

import subprocess
import sys
from collections.abc import Callable

from engine.annotating import Any, Final, Literal, Protocol, Self, TypedDict, TypeVar, TypeVarTuple, cast
from tests.harness.daemon import PROJECT

T = TypeVar("T", bound=int)
Given = TypeVarTuple("Given")


def test_annotations_are_evaluated():
    class Shape(Protocol[T]):
        size: Final = 3

        def one(self, _call: Callable[[*Given], T | None], *_given: *Given) -> dict[str, Any | None]:
            return {}

        def other(self, _name: Literal["a", "b"] | None) -> Self | None:
            return self

    class Fields(TypedDict, total=False):
        a: int

    assert Shape().other("a").one(print) == {}
    assert Fields(a=1) == {"a": 1}
    assert cast(int, "text") == "text"


def test_a_daemon_that_has_begun_has_no_use_for_typing():
    """`-S`, because a file of the environment's packages may load it."""
    script = "import sys, engine.boot, engine.daemon.main as main; main.Engine; print('typing' in sys.modules)"
    ran = subprocess.run([sys.executable, "-S", "-c", script], cwd=PROJECT, capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("False\n", "")
