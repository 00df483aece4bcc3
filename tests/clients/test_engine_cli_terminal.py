"""The engine's own client at a terminal: raw mode and its end, the window's size, detach keys, colours, bars."""

import functools
import io
import os
import signal
import sys
import tarfile
import termios
import time
import uuid

import pytest

from tests.clients.cli import said

COMMAND = (sys.executable, "-m", "engine")
pexpect = pytest.importorskip("pexpect", reason="needs pexpect: pip install pexpect")


@pytest.fixture
def at_terminal(engine):
    """Run a verb of the client at a terminal of its own: at_terminal("ps")."""
    begun = []

    def begin(*words, **named):
        program, *before = COMMAND
        environment = {**engine.environment, "TERM": "xterm", **named.pop("more", {})}
        # Tests that a shell runs in the background ignore SIGINT, and Python then has no KeyboardInterrupt.
        listening = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        how = {"timeout": 60, "dimensions": (30, 90), "preexec_fn": listening, **named}
        child = pexpect.spawn(program, [*before, *words], env=environment, **how)
        begun.append(child)
        return child

    yield begin
    for child in begun:
        child.close(force=True)


@pytest.fixture
def named(engine):
    """A container's name that is gone after the test."""
    name = f"own-{uuid.uuid4().hex[:12]}"
    yield name
    engine("rm", "-fv", name)


@pytest.fixture
def shell(engine, named):
    """A container with a shell at a terminal, detached."""
    said(engine("run", "-dit", "--name", named, "busybox", "sh"))
    return named


def ended(child):
    """The status of a client that ends by itself; the terminal is as it was."""
    child.expect(pexpect.EOF)
    child.close()
    return child.exitstatus


def test_exec_has_a_terminal_of_this_windows_size_and_follows_it(at_terminal, shell):
    child = at_terminal("exec", "-it", shell, "sh")
    child.expect("/ # ")
    child.sendline("stty size")
    child.expect("30 90")
    child.setwinsize(40, 100)
    child.sendline("while [ \"$(stty size)\" != '40 100' ]; do :; done; echo gr''own")
    child.expect("grown")
    child.sendline("exit 6")
    assert ended(child) == 6


def test_attach_and_other_detach_keys(engine, at_terminal, shell):
    child = at_terminal("attach", "--detach-keys", "ctrl-x,x", shell)
    child.sendline("echo at''tached")
    child.expect("attached")
    child.send("\x18x")
    assert ended(child) == 0
    child = at_terminal("attach", shell)
    child.sendline("exit 5")
    assert ended(child) == 5
    assert b"You cannot attach to a stopped container" in engine("attach", shell).stderr


def test_start_at_a_terminal(engine, at_terminal, shell):
    said(engine("kill", shell))
    child = at_terminal("start", "-ai", shell)
    child.sendline("tty; exit 3")
    child.expect("/dev/pts/0")
    assert ended(child) == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_client_of_an_exec_that_is_told_to_end_restores_the_terminal(engine, at_terminal, shell, number):
    child = at_terminal("exec", "-it", shell, "sh")
    keeper = os.dup(child.child_fd)
    try:
        child.expect("/ # ")
        assert not termios.tcgetattr(keeper)[3] & termios.ICANON
        child.kill(number)
        end = time.monotonic() + 60
        while not termios.tcgetattr(keeper)[3] & termios.ICANON:
            assert time.monotonic() < end
            time.sleep(0.01)
        child.wait()
        assert child.exitstatus == 128 + number
    finally:
        os.close(keeper)


def test_heads_are_bold_on_a_terminal_alone(engine, at_terminal):
    assert b"\x1b" not in engine("ps").stdout
    child = at_terminal("ps")
    child.expect_exact("\x1b[1mCONTAINER ID")
    assert ended(child) == 0
    child = at_terminal("ps", more={"NO_COLOR": "1"})
    child.expect(pexpect.EOF)
    assert b"\x1b" not in child.before
    child = at_terminal("inspect", "own-nobody-at-all", "-f", "{{.Id}}")
    assert ended(child) == 1


def test_a_pull_has_a_line_for_each_layer(engine, daemon, at_terminal, registry):
    name = f"127.0.0.1:5000/own-{uuid.uuid4().hex[:12]}:1"
    # A layer that no other image has, and no result of a build.
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.addfile(tarfile.TarInfo(uuid.uuid4().hex))
    daemon.import_image(archive.getvalue(), "own-layer:1")
    said(engine("tag", "own-layer:1", name))
    said(engine("push", name))
    said(engine("rmi", "-f", name, "own-layer:1"))
    child = at_terminal("pull", name)
    child.expect(r"\x1b\[1A\x1b\[2K\r[0-9a-f]{12}: Pull complete")
    child.expect_exact(name)
    assert ended(child) == 0
    said(engine("rmi", name))


def test_stats_are_one_picture_that_changes(at_terminal, shell):
    child = at_terminal("stats", shell)
    child.expect_exact("\x1b[2J")
    for _ in range(2):
        child.expect_exact("\x1b[HCONTAINER ID")
        child.expect_exact(shell)
    child.sendintr()
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130


def test_a_prune_is_asked_about_and_refused(at_terminal):
    child = at_terminal("network", "prune")
    child.expect_exact("[y/N] ")
    child.sendline("n")
    assert ended(child) == 1
