"""The package of the C muxer, which moves containers' output; tells whether its extension module is built here.

The muxer is the code that moves a container's bytes. `muxer.h` declares what Python may call, and `build.py` builds it.
Its only users are `engine.logs.nativereader`, `engine.monitor.nativepump` and `engine.monitor.nativeprocess`. Except
for the processes of the last one, each part has a Python version with the same behaviour, and tests compare the two.
"""

from importlib.util import find_spec


def built() -> bool:
    """True when the extension exists and this Python has the cffi that it needs (a source tree can serve several
    Pythons).

    Whether it loads is not checked: importing it raises if it does not.
    """
    return find_spec("_muxer._native") is not None and find_spec("_cffi_backend") is not None
