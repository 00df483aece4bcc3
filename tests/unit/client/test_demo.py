"""The demo's page: its width, what it shows of an answer, and what it does when a step fails."""

import pytest

from engine.client import demo
from engine.client.api import ApiError
from engine.client.transport import Connection
from engine.errors import SystemFailure
from tests.unit.client.conftest import answer

PULLED = b'{"status":"Pulling fs layer","progressDetail":{},"id":"a"}\r\n{"status":"Status: done"}\r\n'
LOG = b"\x01\0\0\0\0\0\0\x03hi\n"


def flow(status=0):
    """The answers of a whole flow, as one connection gives them one after the other."""
    bodies = [
        (200, PULLED),
        (201, b'{"Id":"%b","Warnings":[]}' % (b"ab" * 32)),
        (204, b""),
        (200, b'{"StatusCode":%d}' % status),
        (200, LOG),
        (204, b""),
    ]
    return [piece for code, body in bodies for piece in answer(code, body)]


def play(canned, answers):
    canned.answers.append(answers)
    with Connection(canned.place) as connection:
        demo.Stage(connection).play("r:5000/image:1")


def test_the_flow_is_shown_in_80_columns(canned, capsys):
    play(canned, flow())
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    shown = ["a: Pulling fs layer", "Status: done", '"StatusCode": 0', "stream 1: hi", "> DELETE /containers/hello"]
    assert all(part in text for part in shown)


def test_a_container_that_fails_makes_the_demo_fail(canned):
    with pytest.raises(SystemFailure, match="ended with 3"):
        play(canned, flow(3))


def test_a_refused_step_is_shown_and_raised(canned, capsys):
    with pytest.raises(ApiError, match="no such thing"):
        play(canned, answer(404, b'{"message":"no such thing"}'))
    assert "< 404 Not Found" in capsys.readouterr().out


def test_without_busybox_a_few_programs_make_the_image(monkeypatch):
    monkeypatch.setattr(demo.shutil, "which", lambda name: None if name in ("busybox", "id") else f"/bin/{name}")
    assert "sh" in demo.programs_of_this_host()
    assert not {"busybox", "id"} & set(demo.programs_of_this_host())
