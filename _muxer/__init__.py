"""The C core that moves containers' output, and whether it is built here.

`muxer.h` is its contract; `build.py` builds it; `engine.logs.native` and `engine.logs.stay` are its only users and
`engine.logs` its oracle.
"""

from importlib.util import find_spec


def built() -> bool:
    """True when the extension is there and this Python has the cffi that it needs (a tree can serve several Pythons).

    It says nothing of whether it loads: importing it says that, aloud.
    """
    return find_spec("_muxer._native") is not None and find_spec("_cffi_backend") is not None
