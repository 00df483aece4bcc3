"""Calls: targets, errors, progress streams."""

import pytest

from engine.client.api import Api, ApiError, container_path, target
from tests.unit.client.conftest import answer


def test_a_target_leaves_out_what_is_not_said():
    query = {"x": True, "y": False, "z": None, "n": 0, "t": "a b&c", "l": ["1", "2"]}
    assert target("/a", query) == "/a?x=1&n=0&t=a%20b%26c&l=1&l=2"
    assert target("/a", {}) == target("/a", None) == "/a"


def test_names_cannot_leave_their_place_in_a_path():
    assert container_path("a/../b?", "start") == "/containers/a%2F..%2Fb%3F/start"


def test_an_error_carries_the_daemons_words_and_the_status(canned):
    canned.answers.append(answer(404, b'{"message":"No such container: x"}'))
    with pytest.raises(ApiError, match="No such container: x") as caught:
        Api(canned.path).call("GET", "/x")
    assert caught.value.status == 404


@pytest.mark.parametrize(("body", "text"), [(b"plain", "plain"), (b"", "status 500"), (b"[1]", r"\[1\]")])
def test_an_error_that_is_no_json_message_is_shown_as_it_is(canned, body, text):
    canned.answers.append(answer(500, body))
    with pytest.raises(ApiError, match=text):
        Api(canned.path).call("GET", "/x")


def test_a_json_body_is_sent_as_json_and_an_empty_answer_is_none(canned):
    canned.answers.append(answer(200, b""))
    assert Api(canned.path).call("POST", "/x", None, {"a": 1}) is None
    head, body = canned.asked[0]
    assert ("Content-Type: application/json" in head, body) == (True, b'{"a": 1}')


def test_an_error_in_the_middle_of_a_progress_stream_is_raised(canned):
    canned.answers.append(answer(200, b'{"status":"one"}\r\n{"errorDetail":{"message":"bad"},"error":"bad"}\r\n'))
    documents = iter(Api(canned.path).progress("/images/create", {}))
    assert next(documents) == {"status": "one"}
    with pytest.raises(ApiError, match="bad"):
        next(documents)


def test_attach_asks_for_an_upgrade(canned):
    canned.answers.append([b"HTTP/1.1 101 UPGRADED\r\n\r\nx"])
    connection, first = Api(canned.path).attach("c", {"stream": True})
    connection.close()
    assert first == b"x"
    assert canned.asked[0][0].startswith("POST /containers/c/attach?stream=1 HTTP/1.1\r\n")
    assert "Upgrade: tcp" in canned.asked[0][0]
