"""`engine ps`: a container's fields, its ports, filters; and the verbs that read its output."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.client.api import Api
from engine.client.container.containerlist import container_row
from engine.client.container.each import rm_verb
from engine.client.container.portlist import shown_ports
from engine.client.container.saying import logs_verb
from engine.client.filtering import checked, query_of
from engine.errors import Invalid
from tests.unit.client.conftest import answer

CONTAINER = {
    "Id": "ab" * 32,
    "Image": "busybox",
    "Command": "echo a long command line",
    "Created": 100,
    "State": "running",
    "Status": "Up 2 seconds",
    "Ports": [{"PrivatePort": 80, "Type": "tcp"}],
    "Names": ["/one", "/two", "/other/link"],
    "Labels": {"b": "2", "a": "1"},
    "Mounts": [{"Name": "a" * 20, "Driver": "local"}, {"Source": "/x"}],
    "NetworkSettings": {"Networks": {"z": {}, "bridge": {}}},
}


def port(inner, outer=0, host="", kind="tcp"):
    found = {"PrivatePort": inner, "Type": kind}
    return found | {"PublicPort": outer, "IP": host} if outer else found


def test_a_container_has_dockers_fields():
    row = container_row(CONTAINER, False, 102)
    assert row["ID"] == "abababababab"
    assert row["Command"] == '"echo a long command…"'
    assert (row["RunningFor"], row["Status"], row["Ports"]) == ("2 seconds ago", "Up 2 seconds", "80/tcp")
    assert (row["Names"], row["Labels"], row["Networks"]) == ("one,two", "a=1,b=2", "bridge,z")
    assert (row["Mounts"], row["LocalVolumes"]) == ("a" * 14 + "…,/x", "1")
    assert (row["Label"]("b"), row["Label"]("nope")) == ("2", "")
    assert container_row(CONTAINER, True, 102)["Names"] == "one,two,other/link"


@pytest.mark.parametrize(
    ("ports", "text"),
    [
        ([], ""),
        ([port(80, 8080, "0.0.0.0")], "0.0.0.0:8080->80/tcp"),
        ([port(80, 8080, "::")], "[::]:8080->80/tcp"),
        ([port(81), port(80), port(82), port(90)], "80-82/tcp, 90/tcp"),
        ([port(53, kind="udp"), port(53)], "53/tcp, 53/udp"),
        ([port(at, at, "1.2.3.4") for at in (9, 10)], "1.2.3.4:9-10->9-10/tcp"),
    ],
)
def test_ports_that_are_neighbours_stand_together(ports, text):
    assert shown_ports(ports) == text


@given(st.sets(st.integers(1, 60)))
def test_no_port_is_lost_in_a_range(numbers):
    found = set()
    for part in filter(None, shown_ports([port(number) for number in numbers]).split(", ")):
        first, _, last = part.removesuffix("/tcp").partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    assert found == numbers


def test_filters_of_one_key_are_gathered():
    texts = ["status=exited", "Status=created", "label=a=b"]
    assert query_of(texts) == '{"status":["exited","created"],"label":["a=b"]}'
    assert query_of([]) is None
    assert query_of([], ("dangling", "true")) == '{"dangling":["true"]}'
    with pytest.raises(Invalid, match="bad format of filter"):
        checked("x")


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
    canned.answers += [answer(409, b'{"message":"busy"}'), answer(204, b"")]
    assert rm_verb(Api(canned.path), {"force": True}, ["a", "b"]) == 1
    assert capsys.readouterr() == ("b\n", "Error response from daemon: busy\n")
    assert "DELETE /containers/b?force=1 " in canned.asked[1][0]


@pytest.mark.parametrize(("force", "status"), [(True, 0), (False, 1)])
def test_a_container_that_is_not_there_may_be_removed_by_force(canned, capsys, force, status):
    canned.answers.append(answer(404, b'{"message":"No such container: a"}'))
    assert rm_verb(Api(canned.path), {"force": force}, ["a"]) == status
    assert capsys.readouterr().err == "Error response from daemon: No such container: a\n"
