"""`engine run`: what it asks for, and how it ends."""

import pytest

from engine.client.api import Api, ApiError
from engine.client.container import attached, creating, run
from engine.client.verbs import main
from engine.commandline import parse
from engine.errors import Invalid
from tests.unit.client.conftest import answer

IDENTITY = "ab" * 32
CREATED = answer(201, b'{"Id":"%b","Warnings":["careful"]}' % IDENTITY.encode())


def creation(*words, environ=None):
    given, (image, *command) = parse(run.OPTIONS, words, interspersed=False)
    return creating.creation(image, command, given, environ or {}, not given.get("detach"))


def test_a_plain_command_is_attached_without_input():
    body = creation("busybox", "ls", "-l")
    assert (body["Image"], body["Cmd"]) == ("busybox", ["ls", "-l"])
    assert (body["AttachStdin"], body["AttachStdout"], body["AttachStderr"]) == (False, True, True)
    assert (body["OpenStdin"], body["StdinOnce"], body["Tty"]) == (False, False, False)
    host = body["HostConfig"]
    assert (host["AutoRemove"], host["NetworkMode"]) == (False, "default")
    assert host["RestartPolicy"] == {"Name": "no", "MaximumRetryCount": 0}
    assert "Entrypoint" not in body


def test_every_option_reaches_its_field():
    environment = ["-e", "A=b", "-e", "B", "-e", "C"]
    place = ["-w", "/w", "-u", "1:2", "--network", "none", "-m", "64m"]
    body = creation("-it", "--rm", *environment, *place, "--entrypoint", "sh", "busybox", environ={"B": "x"})
    assert body["Env"] == ["A=b", "B=x"]
    assert (body["WorkingDir"], body["User"], body["Entrypoint"], body["Cmd"]) == ("/w", "1:2", ["sh"], None)
    assert (body["OpenStdin"], body["StdinOnce"], body["Tty"], body["AttachStdin"]) == (True, True, True, True)
    host = body["HostConfig"]
    assert (host["AutoRemove"], host["NetworkMode"], host["Memory"]) == (True, "none", 64 << 20)


def test_a_detached_container_is_not_attached():
    body = creation("-di", "busybox")
    assert (body["AttachStdin"], body["AttachStdout"], body["StdinOnce"], body["OpenStdin"]) == (False,) * 3 + (True,)


def test_a_detached_run_prints_the_id(canned, capsys):
    canned.answers += [CREATED, answer(204, b"")]
    assert run.run_verb(Api(canned.path), {"detach": True, "name": "n"}, ["busybox"]) == 0
    assert capsys.readouterr() == (f"{IDENTITY}\n", "WARNING: careful\n")
    assert [head.split(" HTTP")[0] for head, _ in canned.asked] == [
        "POST /containers/create?name=n",
        f"POST /containers/{IDENTITY}/start",
    ]


def test_a_missing_image_is_pulled_and_creation_tried_again(canned, capsys):
    missing = answer(404, b'{"message":"No such image: busybox:latest"}')
    pulled = answer(200, b'{"status":"Pulling from library/busybox","id":"latest"}\r\n')
    canned.answers += [missing, missing, pulled, CREATED, answer(204, b"")]
    assert run.run_verb(Api(canned.path), {"detach": True}, ["busybox"]) == 0
    assert capsys.readouterr().err.splitlines()[:2] == [
        "Unable to find image 'busybox' locally",
        "latest: Pulling from library/busybox",
    ]
    assert "POST /images/create?fromImage=busybox&tag=latest" in canned.asked[2][0]


@pytest.mark.parametrize(
    ("given", "answers"),
    [
        ({"pull": "never"}, [answer(404, b'{"message":"missing"}')]),
        ({}, [answer(404, b'{"message":"missing"}'), answer(200, b"{}")]),
    ],
)
def test_nothing_is_pulled_where_it_must_not_be_or_where_the_image_is_there(canned, given, answers):
    canned.answers += answers
    with pytest.raises(ApiError, match="missing"):
        run.run_verb(Api(canned.path), {"detach": True, **given}, ["busybox"])


def test_a_refused_creation_ends_with_125(canned, capsys):
    canned.answers += [answer(400, b'{"message":"bad"}')]
    assert main(["-H", f"unix://{canned.path}", "run", "busybox"]) == 125
    assert capsys.readouterr().err == (
        "engine: Error response from daemon: bad\n\nRun 'engine run --help' for more information\n"
    )


def test_wrong_use_ends_as_with_docker(capsys):
    assert main(["run"]) == 1
    assert main(["run", "--nope", "x"]) == 125
    assert main(["ps", "--nope"]) == 125
    text = capsys.readouterr().err
    assert "unknown flag: --nope" in text
    assert "engine: 'engine run' requires at least 1 argument\n\nUsage:  engine run [OPTIONS] IMAGE" in text


def test_the_error_of_a_wait_ends_with_125(capsys):
    assert attached._exit_code({"StatusCode": 0, "Error": {"Message": "lost"}}) == 125
    assert attached._exit_code({"StatusCode": 7, "Error": None}) == 7


def test_an_interactive_terminal_needs_one_here(canned, capsys):
    assert run.run_verb(Api(canned.path), {"tty": True, "interactive": True}, ["busybox"]) == 1
    assert capsys.readouterr().err == "the input device is not a TTY\n"


def test_a_daemon_that_was_killed_meanwhile_is_asked_again_for_the_exit_code(canned):
    canned.answers += [[b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"], answer(200, b'{"StatusCode":7}')]
    api = Api(canned.path)
    with api.open("POST", "/containers/c/wait", {"condition": "next-exit"}) as waiting:
        assert attached._result(api, "c", waiting) == {"StatusCode": 7}


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        (["--cpus", "1.5"], "HostConfig.NanoCpus", 1_500_000_000),
        (["--cpus", "0.000000001"], "HostConfig.NanoCpus", 1),
        (["--memory-swap", "-1"], "HostConfig.MemorySwap", -1),
        (["--init"], "HostConfig.Init", True),
        (["--init=false"], "HostConfig.Init", False),
        (["--restart", "on-failure:3"], "HostConfig.RestartPolicy", {"Name": "on-failure", "MaximumRetryCount": 3}),
        (["-v", "/a:/b:ro", "-v", "/anonymous"], "HostConfig.Binds", ["/a:/b:ro"]),
        (["-v", "/a:/b:ro", "-v", "/anonymous"], "Volumes", {"/anonymous": {}}),
        (["--tmpfs", "/t:size=1m", "--tmpfs", "/u"], "HostConfig.Tmpfs", {"/t": "size=1m", "/u": ""}),
        (["--ulimit", "nofile=1:2"], "HostConfig.Ulimits", [{"Name": "nofile", "Soft": 1, "Hard": 2}]),
        (["--health-cmd", "true"], "Healthcheck.Test", ["CMD-SHELL", "true"]),
        (["--health-interval", "1m"], "Healthcheck.Interval", 60 * 10**9),
        (["--no-healthcheck"], "Healthcheck.Test", ["NONE"]),
        (["--log-opt", "a=b"], "HostConfig.LogConfig.Config", {"a": "b"}),
        (["--add-host", "a=1.2.3.4"], "HostConfig.ExtraHosts", ["a:1.2.3.4"]),
        (["-l", "a=b=c", "-l", "d"], "Labels", {"a": "b=c", "d": ""}),
        (["--expose", "7-8/udp"], "ExposedPorts", {"7/udp": {}, "8/udp": {}}),
        (
            ["--network", "n", "--network-alias", "x", "--ip", "1.2.3.4"],
            "NetworkingConfig.EndpointsConfig",
            {"n": {"Aliases": ["x"], "IPAMConfig": {"IPv4Address": "1.2.3.4"}}},
        ),
        (
            ["--network", "name=n,alias=x,alias=y", "--network", "m"],
            "NetworkingConfig.EndpointsConfig",
            {"n": {"Aliases": ["x", "y"]}, "m": {}},
        ),
        (
            ["--device", "/dev/a:/dev/b:r"],
            "HostConfig.Devices",
            [{"PathOnHost": "/dev/a", "PathInContainer": "/dev/b", "CgroupPermissions": "r"}],
        ),
    ],
)
def test_an_option_is_a_field(words, field, value):
    found = creation(*words, "busybox")
    for name in field.split("."):
        found = found[name]
    assert found == value


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--cpus", "x"], 'invalid argument "x" for "--cpus" flag: failed to parse x as a rational number'),
        (["--cpus", "0.0000000001"], "value is too precise"),
        (["-m", "x"], 'invalid argument "x" for "-m, --memory" flag: invalid size: \'x\''),
        (["--ulimit", "nofile=x"], 'strconv.ParseInt: parsing "x": invalid syntax'),
        (["--restart", "on-failure:x"], "maximum retry count must be an integer"),
        (["--restart", "always", "--rm"], "conflicting options"),
        (["-e", "=a"], "invalid environment variable: =a"),
        (["-l", "="], "empty name"),
        (["--network", "a,b=c"], "invalid field a"),
        (["--network", ""], "no name set for network"),
        (["--add-host", "a"], 'bad format for add-host: "a"'),
        (["--dns", "x"], "IP address is not correctly formatted: x"),
        (["--no-healthcheck", "--health-cmd", "x"], "conflicts"),
        (["--expose", "x"], "invalid range format for --expose: x"),
        (["--mount", "type=bind"], 'invalid argument "type=bind" for "--mount" flag: target is required'),
    ],
)
def test_what_is_wrong_is_said_in_dockers_words(words, text):
    with pytest.raises(Invalid) as caught:
        creation(*words, "busybox")
    assert text in str(caught.value)


def test_a_cidfile_is_written_once_and_gone_where_there_is_no_container(canned, tmp_path):
    path = tmp_path / "cid"
    canned.answers += [answer(400, b'{"message":"bad"}'), CREATED]
    with pytest.raises(ApiError):
        run.create_verb(Api(canned.path), {"cidfile": str(path)}, ["busybox"])
    assert not path.exists()
    assert run.create_verb(Api(canned.path), {"cidfile": str(path)}, ["busybox"]) == 0
    assert path.read_text() == IDENTITY
    with pytest.raises(Invalid, match="container ID file found"):
        run.create_verb(Api(canned.path), {"cidfile": str(path)}, ["busybox"])
