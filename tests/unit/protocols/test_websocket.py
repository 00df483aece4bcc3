"""The WebSocket's state machine against the RFC's examples, another implementation, and bytes cut anywhere."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import Invalid
from engine.protocols import websocket
from engine.protocols.http import parse_head
from engine.protocols.websocket import INVALID_DATA, NO_CODE, NORMAL, PROTOCOL_ERROR, Closed, Data, Machine

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
ASKED = {
    "Host": "x",
    "Upgrade": "websocket",
    "Connection": "keep-alive, Upgrade",
    "Sec-WebSocket-Key": KEY,
    "Sec-WebSocket-Version": "13",
}


def head(method="GET", minor=1, **changes):
    """A handshake's head, with some fields changed, or left out by None."""
    fields = {**ASKED, **{name.replace("_", "-"): value for name, value in changes.items()}}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value is not None)
    return parse_head(f"{method} /x HTTP/1.{minor}\r\n{lines}\r\n".encode())


def frame(opcode, payload=b"", final=True, mask=b"\1\2\3\4", first=0, length=None):
    """A client's frame; `length` as the second byte's low bits and what follows, else the shortest form."""
    size = len(payload)
    if length is None:
        length = (
            bytes([size]) if size < 126 else b"\x7e" + size.to_bytes(2) if size < 65536 else b"\x7f" + size.to_bytes(8)
        )
    masked = bytes(byte ^ mask[place % 4] for place, byte in enumerate(payload)) if mask else payload
    second = length[0] | (0x80 if mask else 0)
    return bytes([opcode | first | (0x80 if final else 0), second]) + length[1:] + mask + masked


def payload_of(events):
    return b"".join(event.payload for event in events if isinstance(event, Data))


def test_the_rfcs_own_example():
    """Section 1.3."""
    lines = websocket.handshake("GET", head())
    assert "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in lines
    assert "Upgrade: websocket\r\n" in lines


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "POST"},
        {"minor": 0},
        {"Upgrade": None},
        {"Upgrade": "tcp"},
        {"Connection": None},
        {"Connection": "close"},
        {"Sec_WebSocket_Key": None},
        {"Sec_WebSocket_Key": "c2hvcnQ="},
        {"Sec_WebSocket_Key": "*" * 24},
    ],
)
def test_what_is_no_handshake_is_refused(changes):
    with pytest.raises(Invalid, match="websocket"):
        websocket.handshake(changes.get("method", "GET"), head(**changes))


@pytest.mark.parametrize("version", [None, "12", "8", "13, 8"])
def test_another_version_is_told_ours(version):
    with pytest.raises(websocket.WrongVersion, match="13"):
        websocket.handshake("GET", head(Sec_WebSocket_Version=version))


@pytest.mark.parametrize(
    ("masked", "said"),
    [
        (bytes.fromhex("818537fa213d7f9f4d5158"), b"Hello"),
        (bytes.fromhex("898537fa213d7f9f4d5158"), None),
    ],
)
def test_the_rfcs_frames(masked, said):
    """Section 5.7: a masked text, and a ping, which is answered with its own words."""
    machine = Machine()
    events = machine.receive(masked)
    if said is not None:
        assert events == [Data(said)]
    else:
        assert (events, bytes(machine.out)) == ([], b"\x8a\x05Hello")


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.tuples(st.sampled_from([1, 2]), st.lists(st.text(max_size=300), min_size=1, max_size=4)), max_size=6),
    st.data(),
)
def test_however_it_is_framed_and_cut_the_bytes_are_the_same(messages, data):
    """Messages in fragments, pings between the fragments, and the stream cut at any place."""
    stream, wanted, pings = b"", b"", 0
    for opcode, fragments in messages:
        for number, fragment in enumerate(fragments):
            last = number == len(fragments) - 1
            stream += frame(
                opcode if number == 0 else 0, fragment.encode(), last, data.draw(st.binary(min_size=4, max_size=4))
            )
            wanted += fragment.encode()
            if data.draw(st.booleans()):
                stream += frame(9, b"?")
                pings += 1
    machine, events, place = Machine(), [], 0
    while place < len(stream):
        size = data.draw(st.integers(1, 400))
        events += machine.receive(stream[place : place + size])
        place += size
    assert payload_of(events) == wanted
    assert bytes(machine.out) == b"\x8a\x01?" * pings
    assert not machine.closed


@pytest.mark.parametrize(
    ("broken", "code"),
    [
        (frame(1, b"x", mask=b""), PROTOCOL_ERROR),
        (frame(1, b"x", first=0x40), PROTOCOL_ERROR),
        (frame(3, b"x"), PROTOCOL_ERROR),
        (frame(11, b"x"), PROTOCOL_ERROR),
        (frame(0, b"x"), PROTOCOL_ERROR),
        (frame(1, b"x", False) + frame(1, b"y"), PROTOCOL_ERROR),
        (frame(9, b"x", False), PROTOCOL_ERROR),
        (frame(9, b"x" * 126), PROTOCOL_ERROR),
        (frame(2, b"x", length=b"\x7e\0\1"), PROTOCOL_ERROR),
        (frame(2, b"x", length=b"\x7f" + bytes(7) + b"\1"), PROTOCOL_ERROR),
        (frame(2, b"x", length=b"\x7f\x80" + bytes(7)), PROTOCOL_ERROR),
        (frame(8, b"x"), PROTOCOL_ERROR),
        (frame(8, (1005).to_bytes(2)), PROTOCOL_ERROR),
        (frame(8, (999).to_bytes(2)), PROTOCOL_ERROR),
        (frame(8, (1000).to_bytes(2) + b"\xff"), INVALID_DATA),
        (frame(1, b"\xff"), INVALID_DATA),
        (frame(1, b"\xc3"), INVALID_DATA),
        (frame(1, b"\xc3", False) + frame(0, b"x"), INVALID_DATA),
    ],
)
def test_what_breaks_the_protocol_ends_it(broken, code):
    """With the code for it, and nothing after it counts."""
    machine = Machine()
    events = machine.receive(broken + frame(2, b"later"))
    assert (events[-1].code, machine.closed, machine.closing) == (code, True, True)
    assert b"later" not in payload_of(events)
    assert machine.out[0] == 0x88 and int.from_bytes(machine.out[2:4]) == code
    assert machine.receive(frame(2, b"more")) == []


def test_a_letter_in_two_frames_is_one_letter():
    """UTF-8 is of the message, not of the frame."""
    machine = Machine()
    events = machine.receive(frame(1, b"\xc3", False) + frame(9) + frame(0, b"\xa9"))
    assert (payload_of(events).decode(), machine.closed) == ("é", False)


@pytest.mark.parametrize(("payload", "code", "echo"), [(b"", NO_CODE, b""), (b"\x03\xe8bye", NORMAL, b"\x03\xe8")])
def test_a_close_is_answered_once(payload, code, echo):
    machine = Machine()
    assert machine.receive(frame(8, payload)) == [Closed(code, payload[2:].decode())]
    assert bytes(machine.out) == bytes([0x88, len(echo)]) + echo
    machine.close()
    machine.send(b"x")
    assert bytes(machine.out) == bytes([0x88, len(echo)]) + echo


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 200_000])
def test_what_is_sent_has_the_shortest_head(size):
    machine = Machine()
    machine.send(b"x" * size)
    heads = {0: b"", 1: b"\x82\1", 125: b"\x82\x7d", 126: b"\x82\x7e\0\x7e", 65535: b"\x82\x7e\xff\xff"}
    assert bytes(machine.out) == heads.get(size, b"\x82\x7f" + size.to_bytes(8)) + b"x" * size


def test_texts_for_old_clients_are_never_cut_within_a_letter():
    machine = Machine(text=True)
    machine.send(b"a\xc3")
    machine.send(b"\xa9\xff")
    assert bytes(machine.out) == b"\x81\1a" + b"\x81\5" + "é\ufffd".encode()


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=400))
def test_no_bytes_break_the_machine(noise):
    """Whatever a hostile client sends."""
    machine = Machine()
    for place in range(0, len(noise), 7):
        machine.receive(noise[place : place + 7])
    assert len(machine.out) <= 2 * len(noise) + 127


@settings(deadline=None, max_examples=60)
@given(st.lists(st.binary(min_size=1, max_size=70_000), max_size=4), st.binary(max_size=200))
def test_another_implementation_understands_it_and_is_understood(sent, reason):
    """`websockets`, without its sockets."""
    pytest.importorskip("websockets")
    from websockets.frames import Opcode
    from websockets.protocol import CLIENT, OPEN, Protocol

    other = Protocol(CLIENT, state=OPEN, max_size=None)
    machine = Machine()
    for piece in sent:
        machine.send(piece)
        other.send_binary(piece)
    other.send_ping(reason[:125])
    machine.close(NORMAL, "done")
    other.receive_data(bytes(machine.out))
    frames = [each for each in other.events_received() if each.opcode is Opcode.BINARY]
    assert [bytes(each.data) for each in frames] == sent
    assert (other.close_rcvd.code, other.close_rcvd.reason) == (NORMAL, "done")
    assert payload_of(machine.receive(b"".join(other.data_to_send()))) == b"".join(sent)
    assert machine.closed
