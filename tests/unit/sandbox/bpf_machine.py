"""A small interpreter of seccomp's classic BPF: what would the kernel answer? For tests only."""

import struct

_INSTRUCTION = struct.Struct("=HBBI")


def run(program: bytes, architecture: int, number: int, arguments: tuple[int, ...] = ()) -> int:
    """The SECCOMP_RET_* value for one system call; arguments are 64-bit, missing ones 0."""
    padded = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
    data = struct.pack("=IIQ6Q", number & 0xFFFFFFFF, architecture, 0, *padded)
    at, accumulator = 0, 0
    while True:
        code, yes, no, k = _INSTRUCTION.unpack_from(program, at * 8)
        at += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, k)
        elif code == 0x54:
            accumulator &= k
        elif code == 0x05:
            at += k
        elif code == 0x06:
            return k
        elif code in (0x15, 0x25, 0x35):
            true = {0x15: accumulator == k, 0x25: accumulator > k, 0x35: accumulator >= k}[code]
            at += yes if true else no
        else:
            raise AssertionError(f"instruction {code:#x} is not one that libseccomp or the engine makes")
