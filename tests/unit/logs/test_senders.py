"""The drivers that send lines elsewhere: forms of syslog's messages, entries of the journal, pieces of long lines."""

import os
import socket
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import Invalid, SystemFailure
from engine.logs import attributes
from engine.logs.attributes import Described
from engine.logs.drivers import gojson, journald, syslog
from engine.logs.drivers.ring import Ring
from engine.monitor.forwarder import Lines

ONE = Described("ab" * 32, "name", "busybox:1", "sha256:" + "cd" * 32, ("A=1", "BC=2=3", "D"), {"l": "x", "m.n": "y"})
# 2026-11-22 00:30:16 UTC
NOW = 1_795_307_416_123_456_789


@pytest.fixture
def in_berlin(monkeypatch):
    monkeypatch.setenv("TZ", "CET-1")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_the_forms_of_a_message(in_berlin):
    said = {form: make(30, NOW, "host", "tag", 7) for form, make in syslog._FORMS.items()}
    assert said == {
        "": "<30>Nov 22 01:30:16 tag[7]: ",
        "rfc3164": "<30>Nov 22 01:30:16 host tag[7]: ",
        "rfc5424": "<30>1 2026-11-22T01:30:16+01:00 host tag 7 tag - ",
        "rfc5424micro": "<30>1 2026-11-22T01:30:16.123456+01:00 host tag 7 tag - ",
    }


def test_a_day_of_one_digit_has_a_space_before_it(in_berlin):
    assert syslog._unix(1, 1_793_500_000_000_000_000, "", "t", 1).startswith("<1>Nov  1 ")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("", ("", "")),
        ("udp://h", ("udp", "h:514")),
        ("udp://h:1", ("udp", "h:1")),
        ("tcp://[::1]", ("tcp", "[::1]:514")),
        ("tcp://[::1]:2", ("tcp", "[::1]:2")),
        ("unix:///a", ("unix", "/a")),
        ("unixgram:///a", ("unixgram", "/a")),
    ],
)
def test_an_address_is_completed(text, address):
    assert syslog._address(text) == address


@pytest.mark.parametrize(("text", "number"), [("", 3), ("daemon", 3), ("local7", 23), ("0", 0), ("23", 23)])
def test_a_facility_is_a_name_or_a_number(text, number):
    assert syslog._facility(text) == number


@pytest.mark.parametrize("text", ["24", "-1", "x", "999999999999", "local8"])
def test_no_other_facility_is_taken(text):
    with pytest.raises(Invalid, match=r"^invalid syslog facility$"):
        syslog._facility(text)


def test_a_syslog_that_comes_back_gets_the_next_line(tmp_path):
    values = {"kind": "unixgram", "place": str(tmp_path / "s"), "facility": "3", "form": "", "tag": "t"}
    with pytest.raises(SystemFailure, match=r"^dial unixgram /.*/s: connect: no such file or directory$"):
        syslog.Sender(values)
    sender = None
    for text in (b"one", b"two"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
            listener.bind(values["place"])
            listener.settimeout(30)
            sender = sender or syslog.Sender(values)
            sender.send(2, text, None, 0)
            assert listener.recv(100).endswith(b"t[%d]: %b\n" % (os.getpid(), text))
        os.unlink(values["place"])
        sender.send(1, b"lost", None, 0)


@pytest.mark.parametrize(("name", "field"), [("a.b", "A_B"), ("_a", "A"), ("__1é", "1_"), ("PATH", "PATH"), ("__", "")])
def test_a_name_becomes_one_of_the_journals(name, field):
    assert journald.field_name(name) == field


@given(st.dictionaries(st.from_regex(r"[A-Z]{1,8}", fullmatch=True), st.binary(max_size=30), max_size=5))
def test_an_entry_can_be_taken_apart_again(fields):
    rest, found = journald.entry(fields), {}
    while rest:
        line, _, rest = rest.partition(b"\n")
        name, equals, value = line.partition(b"=")
        if not equals:
            size = int.from_bytes(rest[:8], "little")
            value, rest = rest[8 : 8 + size], rest[9 + size :]
        found[name.decode()] = value
    assert found == fields


def test_an_entry_that_no_datagram_holds_goes_in_a_sealed_file(tmp_path):
    path = str(tmp_path / "j")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.bind(path)
        journal.settimeout(30)
        sender = journald.Sender({"LARGE": "x" * 3_000_000}, path)
        sender.send(1, b"line", None, 0)
        data, descriptors, _, _ = socket.recv_fds(journal, 100, 1)
        with open(descriptors[0], "rb") as file:
            file.seek(0)
            assert (data, file.read().startswith(b"MESSAGE=line\nPRIORITY=6\nLARGE=xxx")) == (b"", True)
        os.close(sender.fileno())


def test_where_there_is_no_journal_the_words_are_dockerds(tmp_path):
    with pytest.raises(SystemFailure, match=r"^journald is not enabled on this host$"):
        journald.Sender({}, str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{.ID}}", "abababababab"),
        ("{{ .Name }}/{{.ImageName}}", "name/busybox:1"),
        ("{{.ImageID}} {{.ImageFullID}}", "sha256:cdcdc sha256:" + "cd" * 32),
        ("{{.DaemonName}}-{{- .FullID -}}", "docker-" + "ab" * 32),
        ("plain", "plain"),
    ],
)
def test_a_tag_is_filled_in(template, text):
    assert attributes.tag(template, ONE) == text


@pytest.mark.parametrize("template", ["{{", "{{.Bogus}}", "{{range .X}}", "{{printf .ID}}"])
def test_no_other_tag_is_taken(template):
    with pytest.raises(Invalid, match=r"^template: log-tag:1"):
        attributes.tag(template, ONE)


def test_attributes_are_those_that_the_options_name():
    config = {"labels": "l,none", "labels-regex": "^m", "env": "A,D", "env-regex": "C$"}
    assert attributes.extra(config, ONE) == {"A": "1", "BC": "2=3", "l": "x", "m.n": "y"}
    assert gojson.attributes({"b": "\t<", "a": '"'}) == rb'"attrs":{"a":"\"","b":"\t\u003c"},'
    assert gojson.attributes({}) == b""
    with pytest.raises(Invalid, match=r"error parsing regexp: missing closing \): `\(`"):
        attributes.extra({"env-regex": "("}, ONE)
    assert attributes.extra({"env-regex": "^(A|B(C|D))$", "labels-regex": "(m|.)*n$"}, ONE) == {
        "A": "1",
        "BC": "2=3",
        "m.n": "y",
    }
    with pytest.raises(Invalid, match="invalid nested repetition operator: `\\*\\*`"):
        attributes.extra({"labels-regex": "a**"}, ONE)


def cut(chunks):
    """What is sent of these chunks."""
    sent = []
    lines = Lines(lambda *line: sent.append(line))
    for chunk in chunks:
        lines.feed(1, chunk)
    lines.end()
    return sent


@given(st.lists(st.one_of(st.binary(max_size=9), st.sampled_from([b"\n", b"x" * 9000, b"y" * 16384, b"z" * 40000]))))
def test_lines_are_cut_wherever_the_chunks_were(chunks):
    sent = cut(chunks)
    plain = [(text, partial and partial[1:]) for _, text, partial, _ in sent]
    assert plain == [(text, partial and partial[1:]) for _, text, partial, _ in cut([b"".join(chunks)])]
    assert all(len(text) <= 16384 for text, _ in plain)
    whole = b"".join(text + (b"" if partial and not partial[1] else b"\n") for text, partial in plain)
    assert whole == b"".join(chunks)


def test_the_pieces_of_a_line_know_of_each_other():
    sent = cut([b"x" * 40000 + b"\ny\n"])
    assert [(len(text), partial and partial[1:]) for _, text, partial, _ in sent] == [
        (16384, (1, False)),
        (16384, (2, False)),
        (7232, (3, True)),
        (1, None),
    ]
    assert len({(partial[0], time_ns) for _, _, partial, time_ns in sent[:3]}) == 1


def test_a_ring_drops_what_finds_it_full_and_sends_the_rest():
    sent, begun, go = [], threading.Event(), threading.Event()

    def slow(stream, text, partial, time_ns):
        begun.set()
        go.wait(30)
        sent.append(text)

    ring = Ring(slow, 10)
    ring.put(1, b"first", None, 0)
    assert begun.wait(30)  # it is being sent, and takes no room
    for number in range(5):
        ring.put(1, b"line%d" % number, None, 0)
    go.set()
    ring.end()
    assert sent == [b"first", b"line0", b"line1"]


def test_lines_without_a_text_do_not_fill_the_memory_either():
    sent, go = [], threading.Event()
    ring = Ring(lambda *line: (go.wait(30), sent.append(line)), 1000)
    for _ in range(10000):
        ring.put(1, b"", None, 0)
    go.set()
    ring.end()
    assert len(sent) < 100
