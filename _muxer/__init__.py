"""The C core that moves containers' output, and whether it is built here.

`muxer.h` is its contract; `build.py` builds it; `engine.logs.native` is its only user and `engine.logs` its oracle.
"""

from importlib.util import find_spec


def built() -> bool:
    """True when the extension is there. It says nothing of whether it loads: importing it says that, aloud."""
    return find_spec("_muxer._native") is not None
