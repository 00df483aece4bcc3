"""Property tests of the pump: whatever happens in whatever order, both twins do the same, and lose nothing."""

import os
import socket
import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import _muxer
from engine.logs import format
from engine.logs.writer import Writer
from tests.harness.amounts import examples
from tests.harness.ready import ready
from tests.unit.muxer import twins
from tests.unit.muxer.played import TURN

if not _muxer.built():
    pytest.skip("the C muxer is not built: python3 -m _muxer.build", allow_module_level=True)

quick = settings(
    deadline=None, max_examples=examples("MUXER_EXAMPLES", 60, 20), suppress_health_check=list(HealthCheck)
)

sizes = st.one_of(st.integers(1, 50), st.integers(1000, 70000))
actions = st.one_of(
    st.tuples(st.just("say"), st.sampled_from([1, 2]), sizes),
    st.tuples(st.just("say"), st.sampled_from([1, 2]), sizes),
    st.tuples(st.just("attach"), st.sampled_from([2, 4, 6, 7]), st.booleans(), st.booleans()),
    st.tuples(st.just("read"), st.integers(0, 9), st.integers(1, 300_000)),
    st.tuples(st.just("type"), st.integers(0, 9), st.binary(min_size=1, max_size=20)),
    st.tuples(st.just("half-close"), st.integers(0, 9)),
    st.tuples(st.just("leave"), st.integers(0, 9)),
)


def play(name: str, directory: Path, script, max_size: int, once: bool) -> dict:
    """Plays the script before one twin; everything that could be seen of it."""
    with Writer(str(directory), max_size, 50) as log:
        pump = twins.select(name).Pump(log)
        outputs, said, told = {}, [], []
        for stream in (1, 2):
            reading, outputs[stream] = os.pipe()
            os.set_blocking(outputs[stream], False)
            pump.add_output(stream, reading)
        stdin, writing = os.pipe()
        pump.set_input(writing, once)
        wake, waker = os.pipe()
        os.write(waker, b"x")
        pump.watch(wake)
        peers, got = [], []

        def settle() -> None:
            quiet = 0
            while quiet < 3 * TURN:
                event = pump.run()
                quiet = quiet + 1 if event == ("readable", wake) else 0
                if event[0] != "readable":
                    told.append(event)

        def take(number: int, size: int) -> None:
            while size > 0 and peers[number].fileno() >= 0 and ready(peers[number]):
                data = peers[number].recv(size)
                if not data:
                    return
                got[number] += data
                size -= len(data)
                settle()

        def do(what: str, *how) -> None:
            if what == "say":
                stream, size = how
                data = bytes([65 + len(said) % 26]) * size
                try:
                    said.append((stream, data[: os.write(outputs[stream], data)]))
                except BlockingIOError:
                    said.append((stream, b""))
            elif what == "attach":
                near, far = socket.socketpair()
                peers.append(near)
                got.append(bytearray())
                pump.add_client(far.detach(), how[0], how[1], b"\x10\x11", how[2])
            elif peers and (peer := peers[how[0] % len(peers)]).fileno() >= 0:
                if what == "read":
                    take(how[0] % len(peers), how[1])
                elif what == "leave":
                    peer.close()
                else:
                    try:
                        peer.send(how[1]) if what == "type" else peer.shutdown(socket.SHUT_WR)
                    except OSError:
                        pass  # it was detached, or has half closed before

        for step in script:
            do(*step)
            settle()
        for number in range(len(peers)):
            take(number, 1 << 30)
        os.set_blocking(stdin, False)
        try:
            typed = os.read(stdin, 1 << 20)
        except BlockingIOError:
            typed = None
        for number in range(len(peers)):
            take(number, 1 << 30)
        for fd in outputs.values():
            os.close(fd)
        pump.drain()
        pump.close_clients(200)
        for peer, data in zip(peers, got, strict=True):
            while peer.fileno() >= 0 and (more := peer.recv(1 << 20)):
                data += more
            peer.close()
        settle()
        pump.close()
        for fd in (stdin, wake, waker):
            os.close(fd)
    frames = b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))
    return {"log": frames, "clients": list(map(bytes, got)), "told": told, "typed": typed, "said": said}


def by_stream(frames: bytes) -> dict[int, bytes]:
    out, place = {1: b"", 2: b""}, 0
    while place < len(frames):
        stream, size = struct.unpack_from(">BxxxI", frames, place)
        out[stream] += frames[place + 8 : place + 8 + size]
        place += 8 + size
    return out


@quick
@given(st.lists(actions, max_size=14), st.sampled_from([0, 0, 3000, 100_000]), st.booleans())
def test_both_pumps_do_the_same_and_lose_nothing(script, max_size, once):
    with tempfile.TemporaryDirectory() as scratch:
        c, python = (play(name, Path(scratch, name), script, max_size, once) for name in ("c", "python"))
    for seen in (c, python):
        logged = by_stream(seen["log"])
        for stream in (1, 2):
            assert logged[stream] == b"".join(data for number, data in seen["said"] if number == stream)
    attached = [step for step in script if step[0] == "attach"]
    if not any(step[0] == "leave" for step in script):
        for step, data in zip(attached, c["clients"], strict=True):
            if step[2] and not any(event[0] == "client" and event[2] == "detached" for event in c["told"]):
                assert c["log"].endswith(data) or step[1] not in (6, 7)
                assert not step[3] or step[1] not in (6, 7) or data == c["log"]
    assert c == python


@quick
@given(st.binary(min_size=1, max_size=4), st.lists(st.binary(min_size=1, max_size=8), max_size=8))
def test_detach_keys_are_found_wherever_they_are_cut(keys, sent):
    """Small alphabets make the keys likely."""
    shrink = bytes(byte % 3 for byte in range(256))
    keys, sent = keys.translate(shrink), [data.translate(shrink) for data in sent]
    whole = b"".join(sent)
    found = whole.find(keys)
    script = [("attach", 7, True, False)] + [("type", 0, data) for data in sent] + [("half-close", 0)]
    for name in ("c", "python"):
        with tempfile.TemporaryDirectory() as scratch:
            seen = play_keys(name, Path(scratch, "log"), keys, script)
        assert seen == (whole if found < 0 else whole[:found], found >= 0)


def play_keys(name: str, directory: Path, keys: bytes, script) -> tuple[bytes, bool]:
    with Writer(str(directory)) as log:
        pump = twins.select(name).Pump(log, True)
        stdin, writing = os.pipe()
        pump.set_input(writing)
        near, far = socket.socketpair()
        number = pump.add_client(far.detach(), 7, False, keys)
        detached = False
        for step in script[1:]:
            if detached:
                break
            near.send(step[2]) if step[0] == "type" else near.shutdown(socket.SHUT_WR)
            wake, waker = os.pipe()
            os.write(waker, b"x")
            pump.watch(wake)
            for _ in range(TURN):
                while (event := pump.run()) != ("readable", wake):
                    detached = detached or event == ("client", number, "detached")
            pump.unwatch(wake)
            os.close(wake)
            os.close(waker)
        pump.close()
        near.close()
        typed = os.read(stdin, format.LARGEST_CHUNK)
        os.close(stdin)
    return typed, detached
