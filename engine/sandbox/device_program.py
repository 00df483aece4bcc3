"""Compiles a container's device rules to an eBPF program, because version 2 of cgroups has no files for them.

Pure: assembles eBPF (RFC 9669) for BPF_PROG_TYPE_CGROUP_DEVICE, which gets struct bpf_cgroup_dev_ctx (linux/bpf.h:
access_type, major, minor) and answers 1 for yes and 0 for no. The first rule that covers the whole request allows it,
as with version 1; a request that no rule covers is refused. `kernel.bpf` loads and attaches the program.
"""

import struct
from collections.abc import Iterable

from engine.sandbox.device_rules import Rule, parse

_INSTRUCTION = struct.Struct("=BBhi")
_LOAD_WORD, _MOVE, _MOVE_NUMBER, _AND, _SHIFT_RIGHT = 0x61, 0xBC, 0xB4, 0x54, 0x74
_JUMP_UNLESS_EQUAL, _EXIT = 0x56, 0x95  # the comparison is of 32 bits
_RESULT, _CONTEXT, _KIND, _ACCESS, _MAJOR, _MINOR = 0, 1, 2, 3, 4, 5
_KINDS = {"b": 1, "c": 2}
_BITS = {"m": 1, "r": 2, "w": 4}
_EVERY_BIT = sum(_BITS.values())


def assemble(rules: Iterable[str]) -> bytes:
    """An array of struct bpf_insn for these rules. Raises Invalid."""
    code = [
        _code(_LOAD_WORD, _KIND, _CONTEXT, 0),
        _code(_MOVE, _ACCESS, _KIND),
        _code(_SHIFT_RIGHT, _ACCESS, number=16),
        _code(_AND, _KIND, number=0xFFFF),
        _code(_LOAD_WORD, _MAJOR, _CONTEXT, 4),
        _code(_LOAD_WORD, _MINOR, _CONTEXT, 8),
    ]
    for rule in map(parse, rules):
        code += _rule(rule)
        if rule.kind == "a" and len(rule.access) == len(_BITS):
            return b"".join(code)  # no request gets past it, and the kernel refuses unreachable code
    return b"".join([*code, *_answer(0)])


def _rule(rule: Rule) -> list[bytes]:
    """Code that answers yes where the rule covers the request, and else goes on after itself."""
    tests: list[tuple[int, int]] = []
    if rule.kind != "a":
        tests.append((_KIND, _KINDS[rule.kind]))
        tests += [(_MAJOR, rule.major)] if rule.major is not None else []
        tests += [(_MINOR, rule.minor)] if rule.minor is not None else []
    beyond = _EVERY_BIT & ~sum(_BITS[mark] for mark in rule.access)
    prepared = []
    if beyond:
        # The context is no longer needed: its register gets what is asked for and this rule does not allow.
        prepared = [_code(_MOVE, _CONTEXT, _ACCESS), _code(_AND, _CONTEXT, number=beyond)]
        tests.insert(0, (_CONTEXT, 0))
    answer = _answer(1)
    jumps = []
    for behind, (register, number) in enumerate(reversed(tests)):
        signed = number - (1 << 32) if number >> 31 else number
        jumps.append(_code(_JUMP_UNLESS_EQUAL, register, offset=behind + len(answer), number=signed))
    return [*prepared, *reversed(jumps), *answer]


def _answer(verdict: int) -> list[bytes]:
    return [_code(_MOVE_NUMBER, _RESULT, number=verdict), _code(_EXIT)]


def _code(operation: int, target: int = 0, source: int = 0, offset: int = 0, number: int = 0) -> bytes:
    return _INSTRUCTION.pack(operation, target | source << 4, offset, number)
