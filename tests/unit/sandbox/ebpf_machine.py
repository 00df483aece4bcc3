"""The part of the kernel's eBPF machine that device programs need, strict where the verifier is. For tests only."""

import struct

_INSTRUCTION = struct.Struct("=BBhi")
_MASK = 0xFFFFFFFF


def run(program: bytes, kind: int, access: int, major: int, minor: int) -> int:
    """The verdict of a BPF_PROG_TYPE_CGROUP_DEVICE program; AssertionError for what the verifier would not have."""
    code = [_INSTRUCTION.unpack_from(program, at) for at in range(0, len(program), _INSTRUCTION.size)]
    context = {0: access << 16 | kind, 4: major, 8: minor}
    registers: dict[int, int | None] = {1: None}  # None: the pointer to the context
    at = 0
    for _ in range(len(code)):
        operation, both, offset, number = code[at]
        target, source = both & 0xF, both >> 4
        at += 1
        match operation:
            case 0x61:  # a word of the context
                assert registers[source] is None
                registers[target] = context[offset]
            case 0xBC:
                assert registers[source] is not None
                registers[target] = registers[source]
            case 0xB4:
                registers[target] = number & _MASK
            case 0x54:
                registers[target] &= number & _MASK
            case 0x74:
                registers[target] >>= number
            case 0x56:
                assert offset > 0 and registers[target] is not None
                at += offset if registers[target] != number & _MASK else 0
            case 0x95:
                assert registers[0] in (0, 1)
                return registers[0]
            case _:
                raise AssertionError(f"unknown operation {operation:#x}")
    raise AssertionError("no answer")


def reachable(program: bytes) -> bool:
    """Whether there is a way to every instruction: the kernel refuses a program with one that nothing reaches."""
    code = [_INSTRUCTION.unpack_from(program, at) for at in range(0, len(program), _INSTRUCTION.size)]
    seen: set[int] = set()
    todo = [0]
    while todo:
        at = todo.pop()
        if at in seen:
            continue
        seen.add(at)
        operation, _, offset, _ = code[at]
        if operation != 0x95:
            todo.append(at + 1)
        if operation == 0x56:
            todo.append(at + 1 + offset)
    return seen == set(range(len(code)))
