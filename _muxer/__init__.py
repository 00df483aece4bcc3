"""The C core that moves containers' output, and whether it is built here.

`muxer.h` is its contract and `build.py` builds it. Its only users are `engine.logs.nativereader`,
`engine.monitor.nativepump` and `engine.monitor.nativeprocess`; the Python twins beside those are its oracle.
"""

from importlib.util import find_spec


def built() -> bool:
    """True when the extension is there and this Python has the cffi that it needs (a tree can serve several Pythons).

    It says nothing of whether it loads: importing it says that, aloud.
    """
    return find_spec("_muxer._native") is not None and find_spec("_cffi_backend") is not None
