"""The verbs about containers: rows, filters, logs, rm."""

import pytest

from engine.client.api import Api
from engine.client.containers import container_row, filters, logs_verb, port, rm_verb
from engine.errors import Invalid
from tests.unit.client.conftest import answer


def test_a_container_has_one_row():
    container = {
        "Id": "ab" * 32,
        "Image": "busybox",
        "Command": "echo a long command line",
        "Created": 100,
        "Status": "Up 2 seconds",
        "Ports": [{"PrivatePort": 80, "Type": "tcp"}],
        "Names": ["/one", "/two"],
    }
    assert container_row(container, False, 102) == (
        "abababababab",
        "busybox",
        '"echo a long command…"',
        "2 seconds ago",
        "Up 2 seconds",
        "80/tcp",
        "one, two",
    )


def test_a_published_port_shows_where():
    value = {"IP": "0.0.0.0", "PublicPort": 8080, "PrivatePort": 80, "Type": "tcp"}
    assert port(value) == "0.0.0.0:8080->80/tcp"


def test_filters_of_one_key_are_gathered():
    assert filters(["status=exited", "status=created", "label=a=b"]) == (
        '{"status": ["exited", "created"], "label": ["a=b"]}'
    )
    assert filters([]) is None
    with pytest.raises(Invalid, match="invalid filter 'x'"):
        filters(["x"])


def test_logs_go_to_the_stream_that_they_came_from(canned, capfdbinary):
    canned.answers.append(answer(200, b'{"Config":{"Tty":false}}'))
    canned.answers.append(answer(200, b"\x01\0\0\0\0\0\0\x02a\n\x02\0\0\0\0\0\0\x02b\n", "application/octet-stream"))
    assert logs_verb(Api(canned.path), {"timestamps": True, "tail": "5"}, ["c"]) == 0
    assert capfdbinary.readouterr() == (b"a\n", b"b\n")
    assert "/containers/c/logs?stdout=1&stderr=1&tail=5&timestamps=1 " in canned.asked[1][0]


def test_a_terminals_logs_have_no_frames(canned, capfdbinary):
    canned.answers += [answer(200, b'{"Config":{"Tty":true}}'), answer(200, b"raw\r\n")]
    logs_verb(Api(canned.path), {}, ["c"])
    assert capfdbinary.readouterr().out == b"raw\r\n"


def test_rm_goes_on_after_a_failure_and_says_so(canned, capsys):
    canned.answers += [answer(404, b'{"message":"No such container: a"}'), answer(204, b"")]
    assert rm_verb(Api(canned.path), {"force": True}, ["a", "b"]) == 1
    assert capsys.readouterr() == ("b\n", "engine: No such container: a\n")
    assert "DELETE /containers/b?force=1 " in canned.asked[1][0]
