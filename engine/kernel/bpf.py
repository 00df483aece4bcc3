"""Loads a device program (BPF_PROG_TYPE_CGROUP_DEVICE) with bpf(2) and attaches it to a cgroup.

Runs in the daemon, only on hosts with cgroups version 2; no other process imports it. The caller makes the program. The
kernel keeps an attached program until its cgroup is removed, so there is nothing to close or detach.
"""

import ctypes
import os
import struct

from engine.kernel import syscalls

_PROG_LOAD, _PROG_ATTACH = 5, 8
_CGROUP_DEVICE_PROGRAM = 15
_CGROUP_DEVICE = 6
_ALLOW_MULTI = 2
_INSTRUCTION_BYTES = 8


def load_device_program(program: bytes) -> int:
    """Load a BPF_PROG_TYPE_CGROUP_DEVICE program; returns its descriptor (close-on-exec). Raises OSError."""
    code = ctypes.create_string_buffer(program, len(program))
    license = ctypes.create_string_buffer(b"GPL")
    count = len(program) // _INSTRUCTION_BYTES
    attributes = struct.pack(
        "=IIQQIIQII", _CGROUP_DEVICE_PROGRAM, count, ctypes.addressof(code), ctypes.addressof(license), 0, 0, 0, 0, 0
    )
    return syscalls.bpf(_PROG_LOAD, attributes)


def attach_device_program(directory: str, program: bytes) -> None:
    """Restrict the devices of the cgroup at this host path; what its parents forbid stays forbidden. Raises OSError."""
    loaded = load_device_program(program)
    try:
        cgroup = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            syscalls.bpf(_PROG_ATTACH, struct.pack("=IIII", cgroup, loaded, _CGROUP_DEVICE, _ALLOW_MULTI))
        finally:
            os.close(cgroup)
    finally:
        os.close(loaded)
