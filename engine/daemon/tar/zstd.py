"""Compressing and decompressing zstd with the host's libzstd.so.1 through ctypes, for Python versions without zstd.

Runs in the daemon, on the thread that reads or writes; the library's calls let other threads run meanwhile. A frame
says how far back it refers (its window), and takes that much memory. So a limit is set before the first byte is
decompressed. It never opens a dictionary. Format: RFC 8878; calls: zstd's manual, "Streaming compression" and
"Streaming decompression".
"""

import ctypes
import functools
import weakref

from engine.errors import Invalid, SystemFailure

# 32 MiB. RFC 8878 wants 8 MiB of every decoder, and ordinary levels ask for no more; some images are packed with 32.
WINDOW_LOG = 25
_OUTPUT = 128 * 1024
_LIBRARY = "libzstd.so.1"
_WINDOW_LOG_MAX = 100  # ZSTD_d_windowLogMax
_COMPRESSION_LEVEL, _CHECKSUM_FLAG = 100, 201  # ZSTD_c_compressionLevel, ZSTD_c_checksumFlag
_GO_ON, _FINISH = 0, 2  # ZSTD_e_continue, ZSTD_e_end


class _Buffer(ctypes.Structure):
    """The C structs ZSTD_inBuffer and ZSTD_outBuffer, which have the same layout."""

    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t), ("place", ctypes.c_size_t))


# Name of a C function → the type of its result, and the types of its parameters.
_FUNCTIONS = {
    "ZSTD_createDCtx": (ctypes.c_void_p, ()),
    "ZSTD_freeDCtx": (ctypes.c_size_t, (ctypes.c_void_p,)),
    "ZSTD_DCtx_setParameter": (ctypes.c_size_t, (ctypes.c_void_p, ctypes.c_int, ctypes.c_int)),
    "ZSTD_decompressStream": (
        ctypes.c_size_t,
        (ctypes.c_void_p, ctypes.POINTER(_Buffer), ctypes.POINTER(_Buffer)),
    ),
    "ZSTD_createCCtx": (ctypes.c_void_p, ()),
    "ZSTD_freeCCtx": (ctypes.c_size_t, (ctypes.c_void_p,)),
    "ZSTD_CCtx_setParameter": (ctypes.c_size_t, (ctypes.c_void_p, ctypes.c_int, ctypes.c_int)),
    "ZSTD_compressStream2": (
        ctypes.c_size_t,
        (ctypes.c_void_p, ctypes.POINTER(_Buffer), ctypes.POINTER(_Buffer), ctypes.c_int),
    ),
    "ZSTD_isError": (ctypes.c_uint, (ctypes.c_size_t,)),
    "ZSTD_getErrorName": (ctypes.c_char_p, (ctypes.c_size_t,)),
}


@functools.cache
def library() -> ctypes.CDLL | None:
    """The host's libzstd; None where there is none, or one older than 1.4 (2019)."""
    try:
        found = ctypes.CDLL(_LIBRARY)
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(found, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError):  # no such library; no such function in it
        return None
    return found


class Unzstd:
    """The decompressor of one frame, with the interface that bz2, lzma and Python 3.14's zstd share.

    library: the result of `library()`. Raises Invalid for damage and for a window that is too large.
    """

    def __init__(self, library: ctypes.CDLL):
        self._library = library
        self._context = library.ZSTD_createDCtx()
        if not self._context:
            raise MemoryError("zstd")
        weakref.finalize(self, library.ZSTD_freeDCtx, self._context)
        self._checked(library.ZSTD_DCtx_setParameter(self._context, _WINDOW_LOG_MAX, WINDOW_LOG))
        self._output = ctypes.create_string_buffer(_OUTPUT)
        self._given = b""
        self._taken = 0
        # True when the last call filled the output buffer, so more output may come without more input.
        self._full = False
        self.eof = False

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """At most max_length decompressed bytes; input that is not used is kept for the next call."""
        if data:
            self._given, self._taken = self._given[self._taken :] + data, 0
        source = _Buffer(ctypes.cast(ctypes.c_char_p(self._given), ctypes.c_void_p), len(self._given), self._taken)
        target = _Buffer(ctypes.cast(self._output, ctypes.c_void_p), min(max_length, _OUTPUT), 0)
        result = self._library.ZSTD_decompressStream(self._context, ctypes.byref(target), ctypes.byref(source))
        self.eof = self._checked(result) == 0
        self._taken = source.place
        self._full = target.place == target.size
        return ctypes.string_at(self._output, target.place)

    def _checked(self, result: int) -> int:
        if self._library.ZSTD_isError(result):
            raise Invalid(f"damaged zstd stream: {self._library.ZSTD_getErrorName(result).decode()}")
        return result

    @property
    def needs_input(self) -> bool:
        """True when no more output comes without more input."""
        return not self._full and self._taken == len(self._given)

    @property
    def unused_data(self) -> bytes:
        """The input after the frame's end."""
        return self._given[self._taken :]


class Zstd:
    """The compressor of one frame, with the interface that zlib's and Python 3.14's zstd share.

    library: the result of `library()`; level: 1 to 22
    """

    def __init__(self, library: ctypes.CDLL, level: int):
        self._library = library
        self._context = library.ZSTD_createCCtx()
        if not self._context:
            raise MemoryError("zstd")
        weakref.finalize(self, library.ZSTD_freeCCtx, self._context)
        for parameter, value in ((_COMPRESSION_LEVEL, level), (_CHECKSUM_FLAG, 1)):
            self._checked(library.ZSTD_CCtx_setParameter(self._context, parameter, value))
        self._output = ctypes.create_string_buffer(_OUTPUT)

    def compress(self, data: bytes) -> bytes:
        """Compress more bytes; what is ready of the frame, perhaps nothing."""
        return self._run(data, _GO_ON)

    def flush(self) -> bytes:
        """The rest of the frame."""
        return self._run(b"", _FINISH)

    def _run(self, data: bytes, end: int) -> bytes:
        source = _Buffer(ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p), len(data), 0)
        made = []
        while True:
            target = _Buffer(ctypes.cast(self._output, ctypes.c_void_p), _OUTPUT, 0)
            left = self._library.ZSTD_compressStream2(
                self._context, ctypes.byref(target), ctypes.byref(source), ctypes.c_int(end)
            )
            self._checked(left)
            made.append(ctypes.string_at(self._output, target.place))
            if left == 0 if end == _FINISH else source.place == source.size:
                return b"".join(made)

    def _checked(self, result: int) -> None:
        if self._library.ZSTD_isError(result):
            raise SystemFailure(f"zstd: {self._library.ZSTD_getErrorName(result).decode()}")
