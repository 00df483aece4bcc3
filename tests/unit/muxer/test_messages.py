"""What a daemon asks of a monitor that stays in C, and has nothing of Python any more: to serve clients, to resize, and
what it does not understand."""

import gzip
import json
import os
import platform
import socket
import time
from collections.abc import Callable

import pytest

import _muxer

if not _muxer.built():
    pytest.skip("the C muxer is not built: python3 -m _muxer.build", allow_module_level=True)

from engine.wire import channel, codec
from engine.wire.schema import Attach, Client, Proceed, Warned
from tests.unit.muxer.played import frame, receive
from tests.unit.muxer.spawned import PATIENCE_S, STDERR, STDIN, STDOUT, begin, ended, heard, stat_field

ALL = STDIN | STDOUT | STDERR


@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="AddressSanitizer keeps books of the memory that is given up")
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="with another C library it was never tried")
def test_the_half_that_stays_has_nothing_of_python(asleep):
    """No file of memory, no heap, no interpreter: each lasts as long as one process has it."""
    _, client, said = asleep
    client.sendall(b"still here")
    assert receive(client, 18) == frame(1, b"still here")  # so it serves
    with open(f"/proc/{stat_field(said['pid'], 4)}/maps") as maps:
        # Other tests of this process may have loaded libraries of theirs.
        found = [line.split(maxsplit=5) for line in maps if "/site-packages/" not in line]
    assert not {line[5].strip() for line in found if len(line) == 6 and ("python" in line[5] or "[heap]" in line[5])}
    assert any(_muxer.__path__[0] in line[-1] for line in found)


def attach(link: socket.socket, client: Client, after: tuple[int, int] | None = None) -> socket.socket:
    """A client that a daemon has the monitor serve; the client's end."""
    near, far = socket.socketpair()
    near.settimeout(PATIENCE_S)
    with far:
        socket.send_fds(link, [channel.datagram(Attach(client, after))], [far.fileno()])
    return near


@pytest.mark.parametrize("keys", [b"", b"\x10", b"\x10\x11", b"abc", bytes(range(64))])
def test_a_client_may_come_later(asleep, keys):
    link, client, _ = asleep
    with attach(link, Client(ALL, False, keys, replay=True)) as later:
        assert receive(later, 3) == b"up\n"
        later.sendall(b"hello")
        assert receive(client, 13) == frame(1, b"hello")
        assert receive(later, 5) == b"hello"
        if keys:
            later.sendall(keys)
            assert heard(link) == {"@": "Detached", "#": "00000000"}
            assert later.recv(1) == b""
        client.shutdown(socket.SHUT_WR)
        assert ended(link) == 5


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (b"go on", "unexpected message for a monitor"),
        (channel.datagram(Proceed()), "unexpected message for a monitor"),
        (channel.datagram(Attach(Client(ALL, False))), "unexpected message for a monitor"),
        (channel.datagram(Attach(Client(ALL, False, bytes(65)))), "Attach: errno 22"),
        (b'J{"@":"Attach"}', "Attach: errno 22"),
        (b'J{"@":"Attach","client":{"streams":7,"detach":{"@bytes":"', "Attach: errno 22"),
        (channel.datagram(Attach(Client(ALL, False), (2**64, 0))), "Attach: errno 22"),
        (channel.datagram(Attach(Client(ALL, False), (0, 10**20))), "Attach: errno 22"),
        (channel.datagram(Attach(Client(ALL, False), (1, 2))).replace(b"[1,2]", b"[1;2]"), "Attach: errno 22"),
        (b'J{"@":"Resize","rows":70000,"columns":1}', "Resize: errno 22"),
        (b'J{"@":"Resize"}', "Resize: errno 22"),
        (b'J{"@":"Resize"' + b" " * 10_000, "a message of the engine came in truncated"),
    ],
)
def test_a_message_that_is_not_carried_out_is_told_of(asleep, message, said):
    link, client, _ = asleep
    with socket.socket() as one:
        socket.send_fds(link, [message], [one.fileno()] if said.startswith("Attach") else [])
    told = codec.decode(link.recv(500)[1:])
    assert told == Warned(said)
    client.sendall(b"still here")
    assert receive(client, 18) == frame(1, b"still here")
    client.shutdown(socket.SHUT_WR)
    assert ended(link) == 5


def test_a_client_that_was_sent_lines_of_json_gets_those_since(spawner, attached, tmp_path):
    """Over a rotation, with its compression, and with the lines that are not ended yet."""
    near, far = attached()
    link, _ = begin(spawner(), *far, directory=str(tmp_path), script="cat", streams=ALL, json=True, max_size=100)
    log = tmp_path / "log"

    def say(text: bytes) -> None:
        near[0].sendall(text)
        receive(near[0], 8 + len(text))

    def until(condition: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < end, sorted(log.iterdir())
            time.sleep(0.01)

    say(b"one\n")
    place = (log / "j.log").stat()
    say("<two> \u00e4 \n".encode())  # the first file is full
    say(b"three\nfo")
    with attach(link, Client(STDOUT, True), (place.st_ino, place.st_size)) as later:
        told = frame(1, "<two> \u00e4 \n".encode()) + frame(1, b"three\n") + frame(1, b"fo")
        assert receive(later, len(told)) == told
        until((log / "j.log.1.gz").exists)
        until(lambda: not (log / "j.log.1").exists())
        say(b"ur\n")
        assert receive(later, 11) == frame(1, b"ur\n")
    with gzip.open(log / "j.log.1.gz") as old:
        assert [json.loads(line)["log"] for line in old] == ["one\n", "<two> \u00e4 \n"]
    # Of a file that is no plain one any more; of one that is gone, with the largest number; and before any.
    whole = [frame(1, text) for text in (b"one\n", "<two> \u00e4 \n".encode(), b"three\n", b"four\n")]
    for after, told in (((place.st_ino, place.st_size), whole[1:]), ((2**64 - 1, 5), whole), ((0, 0), whole)):
        with attach(link, Client(STDOUT, True), after) as late:
            assert receive(late, len(b"".join(told))) == b"".join(told)
        if after[0] > place.st_ino:
            assert codec.decode(link.recv(500)[1:]) == Warned(
                "a client was not sent all lines of a log: the file that it had read from is gone"
            )
    (log / "j.log.1.gz").write_bytes(b"damaged, and so passed over")
    with attach(link, Client(STDOUT, True), (0, 0)) as late:
        assert receive(late, len(b"".join(whole[2:]))) == b"".join(whole[2:])
    near[0].shutdown(socket.SHUT_WR)
    assert ended(link) == 0
