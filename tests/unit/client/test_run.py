"""`engine run`: what it asks for, and how it ends."""

import pytest

from engine.client import run
from engine.client.api import Api
from engine.client.verbs import main
from engine.commandline import parse
from engine.errors import Invalid
from tests.unit.client.conftest import answer

IDENTITY = "ab" * 32
CREATED = answer(201, b'{"Id":"%b","Warnings":["careful"]}' % IDENTITY.encode())


def creation(*words, environ=None):
    given, (image, *command) = parse(run.OPTIONS, words, interspersed=False)
    return run.creation(image, command, given, environ or {})


def test_a_plain_command_is_attached_without_input():
    body = creation("busybox", "ls", "-l")
    assert (body["Image"], body["Cmd"]) == ("busybox", ["ls", "-l"])
    assert (body["AttachStdin"], body["AttachStdout"], body["AttachStderr"]) == (False, True, True)
    assert (body["OpenStdin"], body["StdinOnce"], body["Tty"]) == (False, False, False)
    assert body["HostConfig"] == {"AutoRemove": False, "NetworkMode": "default"}
    assert "Entrypoint" not in body


def test_every_option_reaches_its_field():
    environment = ["-e", "A=b", "-e", "B", "-e", "C"]
    place = ["-w", "/w", "-u", "1:2", "--network", "none", "-m", "64m"]
    body = creation("-it", "--rm", *environment, *place, "--entrypoint", "sh", "busybox", environ={"B": "x"})
    assert body["Env"] == ["A=b", "B=x"]
    assert (body["WorkingDir"], body["User"], body["Entrypoint"], body["Cmd"]) == ("/w", "1:2", ["sh"], None)
    assert (body["OpenStdin"], body["StdinOnce"], body["Tty"], body["AttachStdin"]) == (True, True, True, True)
    assert body["HostConfig"] == {"AutoRemove": True, "NetworkMode": "none", "Memory": 64 << 20}


def test_a_detached_container_is_not_attached():
    body = creation("-di", "busybox")
    assert (body["AttachStdin"], body["AttachStdout"], body["StdinOnce"], body["OpenStdin"]) == (False,) * 3 + (True,)


def test_a_detached_run_prints_the_id(canned, capsys):
    canned.answers += [CREATED, answer(204, b"")]
    assert run.run(Api(canned.path), {"detach": True, "name": "n"}, ["busybox"]) == 0
    assert capsys.readouterr() == (f"{IDENTITY}\n", "WARNING: careful\n")
    assert [head.split(" HTTP")[0] for head, _ in canned.asked] == [
        "POST /containers/create?name=n",
        f"POST /containers/{IDENTITY}/start",
    ]


def test_a_missing_image_is_pulled_and_creation_tried_again(canned, capsys):
    pulled = answer(200, b'{"status":"Pulling from library/busybox","id":"latest"}\r\n')
    canned.answers += [answer(404, b'{"message":"No such image: busybox:latest"}'), pulled, CREATED, answer(204, b"")]
    assert run.run(Api(canned.path), {"detach": True}, ["busybox"]) == 0
    assert capsys.readouterr().err.splitlines()[:2] == [
        "Unable to find image 'busybox' locally",
        "latest: Pulling from library/busybox",
    ]
    assert "POST /images/create?fromImage=busybox&tag=latest" in canned.asked[1][0]


def test_a_refused_creation_ends_with_125(canned, capsys):
    canned.answers += [answer(400, b'{"message":"bad"}')]
    assert run.run(Api(canned.path), {}, ["busybox"]) == 125
    assert capsys.readouterr().err == "engine: bad\n"


def test_wrong_use_of_run_ends_with_125_and_of_others_with_1(capsys):
    assert main(["run"]) == 125
    assert main(["run", "--nope", "x"]) == 125
    assert main(["ps", "--nope"]) == 1
    assert "unknown flag: --nope" in capsys.readouterr().err


def test_the_error_of_a_wait_ends_with_125(capsys):
    assert run._exit_code({"StatusCode": 0, "Error": {"Message": "lost"}}) == 125
    assert run._exit_code({"StatusCode": 7, "Error": None}) == 7


def test_an_interactive_terminal_needs_one_here(canned):
    with pytest.raises(Invalid, match="not a TTY"):
        run.run(Api(canned.path), {"tty": True, "interactive": True}, ["busybox"])


def test_a_daemon_that_was_killed_meanwhile_is_asked_again_for_the_exit_code(canned):
    canned.answers += [[b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"], answer(200, b'{"StatusCode":7}')]
    api = Api(canned.path)
    with api.open("POST", "/containers/c/wait", {"condition": "next-exit"}) as waiting:
        assert run._result(api, "c", waiting) == {"StatusCode": 7}
