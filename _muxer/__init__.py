"""The package of the C muxer, which moves containers' output; tells whether its extension module is built here.

The muxer is the code that moves a container's bytes. `muxer.h` declares what Python may call, and `build.py` builds it.
Its only users are the modules `native...` of `engine.logs`, `engine.monitor` and `engine.daemon.tar`, and the proxy.
Except for the processes of `nativeprocess`, each part has a Python version with the same behaviour, and tests compare
the two.
"""

import os
import zlib
from importlib.util import find_spec


def built() -> bool:
    """True when the extension exists and this Python has the cffi that it needs (a source tree can serve several
    Pythons).

    Whether it loads is not checked: importing it raises if it does not.
    """
    return find_spec("_muxer._native") is not None and find_spec("_cffi_backend") is not None


def contract() -> int:
    """The checksum of the headers by which Python and C speak, as they are in this tree; 0 in an install without them.

    The extension has that of the headers of which it was built: one that was built before they changed is of no use.
    """
    checksum = 0
    for name in ("muxer.h", "wire.h"):
        try:
            with open(os.path.join(os.path.dirname(__file__), name), "rb") as file:
                checksum = zlib.crc32(file.read(), checksum)
        except (FileNotFoundError, NotADirectoryError):  # the latter where this is a part of the one file
            return 0
    return checksum
