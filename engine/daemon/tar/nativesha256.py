"""sha256 in C (`_muxer/files/sha256.c`), where the processor has instructions for it; loaded only where the C muxer was
selected.

It has the interface of hashlib's hash objects, as far as it is used here. The interpreter's lock is free meanwhile.
"""

from _muxer._native import ffi, lib


def fits() -> bool:
    """Whether this processor has the instructions."""
    return bool(lib.mux_sha256_fits())


class Sha256:
    """A digest that is being made."""

    def __init__(self) -> None:
        self._c = ffi.new("struct mux_sha256 *")
        lib.mux_sha256_begin(self._c)

    def update(self, data: bytes | memoryview, /) -> None:
        """Hash more bytes."""
        lib.mux_sha256_update(self._c, ffi.from_buffer("uint8_t[]", data), memoryview(data).nbytes)

    def hexdigest(self) -> str:
        """The digest of all hashed bytes, in hex digits."""
        digest = ffi.new("uint8_t[]", 32)
        lib.mux_sha256_digest(self._c, digest)
        return ffi.buffer(digest, 32)[:].hex()
