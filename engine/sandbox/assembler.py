"""Assembles seccomp's classic BPF programs: instructions, far jumps and binary search over numbers.

Pure: no system call. A program is built from its end to its start, so that every target is known when the jump to it is
made: each method that adds code returns the label of what it added. Encoding: linux/filter.h, linux/bpf_common.h.
"""

import struct
from collections.abc import Sequence

_INSTRUCTION = struct.Struct("=HBBI")
_LOAD_WORD = 0x20
_AND = 0x54
_RETURN = 0x06
_JUMP = 0x05
_FAR = 255

EQUAL, GREATER, AT_LEAST = 0x15, 0x25, 0x35
"""Conditional jumps on the accumulator: == k, > k, >= k (unsigned)."""

LARGEST = 4096
"""The most instructions that the kernel takes (BPF_MAXINSNS)."""


class Program:
    """A program under construction. A label is the number of instructions from a place to the end.

    Each method that adds code raises ValueError when the program becomes too long for the kernel.
    """

    def __init__(self) -> None:
        """Start empty, at the end."""
        self._reversed: list[tuple[int, int, int, int]] = []
        self._returns: dict[int, int] = {}

    def _add(self, code: int, k: int, yes: int = 0, no: int = 0) -> int:
        if len(self._reversed) >= LARGEST:
            raise ValueError(f"a filter of more than {LARGEST} instructions, the kernel's limit")
        self._reversed.append((code, yes, no, k))
        return len(self._reversed)

    def _near(self, label: int, margin: int) -> int:
        """The label if it is near enough for a conditional jump `margin` instructions further up, else the label of a
        jump to it.
        """
        if len(self._reversed) + margin - label <= _FAR:
            return label
        return self._add(_JUMP, len(self._reversed) - label)

    def answer(self, action: int) -> int:
        """Return this SECCOMP_RET_* value; calls nearby with the same value share one instruction."""
        label = self._returns.get(action)
        if label is None or len(self._reversed) - label > _FAR // 2:
            label = self._returns[action] = self._add(_RETURN, action)
        return label

    def load(self, offset: int, then: int, mask: int | None = None) -> int:
        """Load a word of struct seccomp_data, combined with `mask` by AND if there is one, and go on at `then`."""
        then = self.go(then)
        if mask is not None:
            self._add(_AND, mask)
        return self._add(_LOAD_WORD, offset)

    def go(self, label: int) -> int:
        """The label of a place at the present start of the program from which it goes on at `label`."""
        if label == len(self._reversed):
            return label
        return self._add(_JUMP, len(self._reversed) - label)

    def branch(self, comparison: int, value: int, yes: int, no: int) -> int:
        """Compare the accumulator with `value` and go on at one of two labels."""
        if yes == no:
            return yes
        yes, no = self._near(yes, 1), self._near(no, 1)
        # The second call may have moved the first label out of reach.
        yes = self._near(yes, 0)
        here = len(self._reversed)
        return self._add(comparison, value, here - yes, here - no)

    def search(self, starts: Sequence[tuple[int, int]]) -> int:
        """Find the accumulator's range among (first number, label), ascending.

        A value below the first number counts as in the first range.
        """
        if len(starts) == 1:
            return starts[0][1]
        middle = len(starts) // 2
        above = self.search(starts[middle:])
        below = self.search(starts[:middle])
        return self.branch(AT_LEAST, starts[middle][0], above, below)

    def assemble(self) -> bytes:
        """The program as an array of struct sock_filter."""
        return b"".join(_INSTRUCTION.pack(*instruction) for instruction in reversed(self._reversed))
