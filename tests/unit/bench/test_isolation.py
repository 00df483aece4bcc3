"""Tests of `bench.isolation` and of `bench.runner` in it, which need root: they make namespaces."""

import os
import signal
import socket
import sys
import time

import pytest

from bench import runner
from bench.isolation import Isolated

pytestmark = pytest.mark.root


def name_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def test_ending_it_ends_a_process_that_its_program_left_behind(tmp_path):
    # The second sleep is an orphan: its parent has ended when the first one starts.
    program = ["sh", "-c", f"(setsid sleep 600 & echo $! > {tmp_path}/orphan); exec sleep 600"]
    with Isolated(program, tmp_path / "log") as isolated:
        # The shells of the start are members too, for a moment: no event says that only the two sleeps are left.
        while list(map(name_of, members := isolated.members())) != ["sleep", "sleep"]:
            time.sleep(0.001)
        pidfds = [os.pidfd_open(pid) for pid in members]
    for pidfd in pidfds:
        with pytest.raises(ProcessLookupError):  # by the descriptor: the number may be another's by now
            signal.pidfd_send_signal(pidfd, 0)
        os.close(pidfd)


def test_it_has_a_network_of_its_own_and_sees_hidden_directories_empty(tmp_path):
    program = ["sh", "-c", "cat /proc/net/dev; ls /var/lib | wc -l"]
    with Isolated(program, tmp_path / "log", hidden=("/var/lib",)) as isolated:
        isolated.wait()
        *network, count = isolated.log.read_text().splitlines()
    assert [line.split(":")[0].strip() for line in network if ":" in line] == ["lo"]
    assert count == "0"


def test_a_program_that_does_not_start_says_why_in_its_tail(tmp_path):
    with Isolated(["/nonexistent/program"], tmp_path / "log") as isolated:
        isolated.wait()
    assert "/nonexistent/program" in isolated.tail()


def test_the_runner_runs_its_command_once_an_order(tmp_path):
    orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with orders, theirs:
        argv = [sys.executable, "-I", runner.__file__, str(theirs.fileno()), "sh", "-c", "echo $PPID; exit 3"]
        with Isolated(argv, tmp_path / "log", descriptors=[theirs.fileno()]):
            orders.send(b"\n")
            first = orders.recv(100)
            orders.send(b"\n")
            assert orders.recv(100) == first
    status, output = first.split(b" ", 1)
    assert status == b"3" and output.strip().isdigit()


def test_a_program_that_has_ended_already_has_no_members_and_kills_nobody(tmp_path):
    for _ in range(20):
        with Isolated(["true"], tmp_path / "log") as isolated:
            isolated.wait()
            isolated.members()
