"""The table of system calls and the wrappers that need no privilege."""

import errno
import os
import re
from pathlib import Path

import pytest

from engine.kernel import syscalls


def test_every_machine_has_every_call() -> None:
    names = [set(numbers) for numbers in syscalls.NUMBERS.values()]
    assert all(one == names[0] for one in names) and set(syscalls.NUMBERS) == {"x86_64", "aarch64", "armv7l", "riscv64"}


@pytest.mark.parametrize(
    ("machine", "header"),
    [("x86_64", "x86_64-linux-gnu/asm/unistd_64.h"), ("aarch64", "asm-generic/unistd.h")],
)
def test_the_numbers_are_the_kernels(machine: str, header: str) -> None:
    path = Path("/usr/include", header)
    if not path.exists():
        pytest.skip(f"{path} is not installed")
    kernels = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", path.read_text()))
    for name, number in syscalls.NUMBERS[machine].items():
        assert int(kernels[name]) == number, name


def test_a_process_is_named_by_its_start_even_with_an_odd_name() -> None:
    before = Path("/proc/self/comm").read_text()
    plain = syscalls.process_start(os.getpid())
    Path("/proc/self/comm").write_text(") R 1 (x)")
    try:
        assert syscalls.process_start(os.getpid()) == plain
    finally:
        Path("/proc/self/comm").write_text(before.strip())
    assert syscalls.process_start(1) <= plain


def test_a_process_that_is_not_there_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        syscalls.process_start(1 << 22)


def test_a_refused_call_raises_with_its_errno() -> None:
    with pytest.raises(OSError) as caught:
        syscalls.setns(1 << 30, 0)
    assert caught.value.errno == errno.EBADF
    with pytest.raises(OSError) as caught:
        syscalls.mount("x", "/nonexistent/place", "tmpfs", 0)
    assert caught.value.errno in (errno.ENOENT, errno.EPERM)


def test_capabilities_read_are_those_of_proc() -> None:
    text = Path("/proc/self/status").read_text()
    shown = [int(re.search(rf"Cap{name}:\s+(\w+)", text)[1], 16) for name in ("Eff", "Prm", "Inh")]
    assert list(syscalls.capget()) == shown


def test_a_machine_without_a_table_fails_when_called_not_when_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syscalls, "_numbers", {})
    with pytest.raises(OSError, match="no number is known for the system call mount"):
        syscalls._bind("mount")(1, 2, 3)


def test_descriptors_are_marked_by_close_range() -> None:
    first, second = os.pipe()
    os.set_inheritable(second, True)
    syscalls.close_range(second, second, syscalls.CLOSE_RANGE_CLOEXEC)
    assert not os.get_inheritable(second)
    os.close(first)
    os.close(second)
