"""Joining two descriptors with the daemon's socket: all bytes, both ways, to each end."""

import os
import socket
import threading

import pytest

from engine.client.door import stdio

DATA = bytes(range(256)) * 4096


@pytest.fixture
def joined():
    """(the daemon's end, a writer to the input, a reader of the output, the thread that joins them)."""
    near, far = socket.socketpair()
    input_reader, input_writer = os.pipe()
    output_reader, output_writer = os.pipe()

    def work():
        with near:
            stdio.join(near, input_reader, output_writer)
        os.close(output_writer)
        os.close(input_reader)

    thread = threading.Thread(target=work)
    thread.start()
    with far, os.fdopen(output_reader, "rb") as reader:
        yield far, input_writer, reader
        far.close()
        thread.join(10)
        assert not thread.is_alive()


def test_all_bytes_go_both_ways_and_the_input_ends_as_a_half_close(joined):
    daemon, writer, reader = joined
    received = bytearray()

    def answer():
        while piece := daemon.recv(65536):
            received.extend(piece)
        daemon.sendall(DATA[::-1])
        daemon.shutdown(socket.SHUT_RDWR)

    answering = threading.Thread(target=answer)
    answering.start()
    with os.fdopen(writer, "wb") as feeding:
        feeding.write(DATA)
    assert reader.read() == DATA[::-1]
    answering.join(10)
    assert bytes(received) == DATA


def test_an_answer_comes_while_the_input_is_open(joined):
    daemon, writer, reader = joined
    with os.fdopen(writer, "wb"):
        daemon.sendall(b"early")
        assert reader.read(5) == b"early"
        daemon.shutdown(socket.SHUT_RDWR)
        assert reader.read() == b""
