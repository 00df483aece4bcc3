"""What a monitor that is one process believes of what becomes of an exec's process."""

import os
import socket
import subprocess

import pytest

from engine.monitor import enter
from engine.monitor.launch import STDOUT, Streams
from engine.wire import channel
from engine.wire.channel import Channel
from engine.wire.schema import Failed, Started, Warned
from tests.harness.descriptors import all_open
from tests.unit.muxer.spawned import FORGED, TOLD


@pytest.fixture
def program():
    """A child of this process, as an exec's process is one of its monitor."""
    with subprocess.Popen(["sleep", "600"]) as made:
        yield made.pid
        made.kill()


def awaited(*reports):
    """What the monitor makes of these reports, each with a descriptor; and what it has told the daemon."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link, daemon = Channel.pair()
    joiner = os.fork()
    if not joiner:
        os._exit(0)
    with ours, link, daemon:
        with theirs:
            for each in reports:
                socket.send_fds(theirs, [each], [ours.fileno()])
        before = all_open()
        launched = enter._await(ours, joiner, link, Streams(False, False, (STDOUT,)))
        more = (all_open() - before).total()
        link.socket.shutdown(socket.SHUT_WR)
        told = []
        while (received := daemon.receive()) is not None:
            told.append(received[0])
    return launched, told, more


def test_nobody_is_believed_who_speaks_in_the_place_of_a_newborn(program):
    launched, told, more = awaited(b"B0", b"T", b"B" + b"9" * 5000, *FORGED, b"B%d" % program)
    assert launched is not None and launched.pid == program and launched.terminal == -1
    assert [(type(each), each.pid) for each in told] == [(Started, program)]
    os.close(launched.pidfd)
    assert more == 5  # its streams and the pidfd


def test_what_a_joiner_reports_is_passed_on_and_its_failure_is_the_end():
    warned, failed = TOLD
    launched, told, _ = awaited(b"W" + channel.datagram(warned), b"F" + channel.datagram(failed))
    assert launched is None and [type(each) for each in told] == [Warned, Failed]
