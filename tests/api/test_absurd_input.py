"""What no client should send: each is refused in words, and nothing of it is an error of the engine's own.

Found by generated requests (`tests.chaos`); before, each of these was an `internal error`, or was taken for what it is
not. The words are dockerd's where it refuses the same.
"""

import json
from collections.abc import Callable
from urllib.parse import quote

import pytest

from tests.harness.daemon import Daemon

NINES = "9" * 400
MORE = "9" * 5_000  # Python reads at most 4,300 digits
NESTED = "[" * 5_000


def filtered(path: str, **filters: str) -> str:
    """A path with filters of one value each."""
    return f"{path}?filters=" + quote(json.dumps({name: [value] for name, value in filters.items()}))


def host(**fields: object) -> dict:
    """A body of create with these fields of HostConfig."""
    return {"Image": "busybox", "Cmd": ["true"], "HostConfig": {"NetworkMode": "none", **fields}}


def not_passed_on(field: str) -> str:
    """How a NUL is refused."""
    return f"invalid {field}: a NUL character cannot be passed on"


UNPARSED = 'strconv.Atoi: parsing "5_0": invalid syntax'
NO_PORT = "error while looking up for publish ٣: invalid start port '٣': invalid syntax"
AGE = "failed to parse value as time or duration"
ASKED = [
    (
        "POST",
        filtered("/containers/prune", until=NINES + "h"),
        None,
        400,
        f'{AGE}: invalid seconds "{NINES}h": invalid syntax',
    ),
    ("POST", filtered("/containers/prune", until="٣h"), None, 400, AGE),
    ("POST", filtered("/build/prune", until=NINES + "h"), None, 400, AGE),
    ("GET", f"/events?until={NINES}", None, 400, f'invalid seconds "{NINES}": value out of range'),
    ("GET", filtered("/containers/json", exited="5_0"), None, 400, f"invalid filter 'exited=5_0': {UNPARSED}"),
    ("GET", filtered("/containers/json", publish="٣"), None, 400, NO_PORT),
    ("GET", f"/images/search?term=x&limit={MORE}", None, 400, f'strconv.Atoi: parsing "{MORE}": value out of range'),
    ("GET", "/images/search?term=[]:5000/x", None, 400, "invalid index name ([]:5000)"),
    ("GET", f"/images/busybox/get?platform={NESTED}", None, 400, "failed to parse platform"),
    ("GET", f"/images/busybox/history?platform={NESTED}", None, 400, "failed to parse platform"),
    ("POST", f"/build?outputs={NESTED}", b"", 400, "error reading outputs"),
    ("POST", f"/build?buildargs={MORE}", b"", 400, "error reading build args"),
    ("POST", f"/build?memory={NINES}", b"", 400, f'strconv.Atoi: parsing "{NINES}": value out of range'),
    ("POST", "/containers/create", host(PortBindings={"80/tcp": [{"HostPort": MORE}]}), 400, "invalid port spec"),
    ("POST", "/containers/create", host(PortBindings={MORE: []}), 400, f"invalid port '{MORE}': value out of range"),
    ("POST", "/containers/create", host(Binds=["/tmp:/a\0b"]), 400, not_passed_on("HostConfig.Binds")),
    ("POST", "/containers/create", host(Binds=["/t\0mp:/b"]), 400, not_passed_on("HostConfig.Binds")),
    (
        *("POST", "/containers/create", host(Mounts=[{"Type": "tmpfs", "Target": "/a\0b"}])),
        *(400, not_passed_on("HostConfig.Mounts")),
    ),
    ("POST", "/containers/create", host(Tmpfs={"/a": "size=1\0"}), 400, not_passed_on("HostConfig.Tmpfs")),
    ("POST", "/containers/create", host(MaskedPaths=["/a\0"]), 400, not_passed_on("HostConfig.MaskedPaths")),
    ("POST", "/containers/create", host(Sysctls={"a\0": "1"}), 400, not_passed_on("HostConfig.Sysctls")),
    ("POST", "/containers/create", host() | {"Shell": ["\0"]}, 400, not_passed_on("Shell")),
    (
        "POST",
        "/containers/create",
        host() | {"Healthcheck": {"Test": ["CMD", "\0"]}},
        400,
        not_passed_on("Healthcheck"),
    ),
    ("POST", "/containers/create", host(CpusetCpus="5_0"), 400, "invalid format: 5_0"),
    ("POST", "/auth", {"serveraddress": "a b"}, 400, 'parse "https://a b": invalid character " " in host name'),
    ("POST", "/auth", {"serveraddress": "[{}]"}, 400, "unable to parse server address"),
    ("POST", "/auth", {"serveraddress": "[]:1"}, 400, "unable to parse server address"),
    ("POST", "/auth", {"serveraddress": "a:b"}, 400, 'invalid port ":b" after host'),
    ("POST", "/auth", {"serveraddress": "\ud800"}, 400, "unable to parse server address"),
    # As Go's resolver answers, and so dockerd.
    ("POST", "/auth", {"serveraddress": "a..b"}, 500, "lookup a..b: no such host"),
    ("POST", "/auth", {"serveraddress": "a" * 70 + ".test"}, 500, f"lookup {'a' * 70}.test: no such host"),
    ("GET", "/images/search?term=a..b/x", None, 400, "lookup a..b: no such host. If this"),
    ("POST", "/images/create?fromSrc=http://a..b/", None, 500, "lookup a..b: no such host"),
    ("POST", f"/images/create?fromImage={'a' * 64}.test/x:y", None, 500, f"lookup {'a' * 64}.test: no such host"),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "words"), ASKED, ids=range(len(ASKED)))
def test_it_is_refused_in_words(
    daemon: Daemon, busybox: str, method: str, path: str, body: object, status: int, words: str
) -> None:
    """And checked against the definition, as every answer."""
    answer = daemon.request(method, path, body)
    assert answer.status == status and words in answer.message, answer.body[:300]


def test_a_size_of_400_digits_is_refused_at_the_start(daemon: Daemon, container: Callable[..., str]) -> None:
    """dockerd refuses values of log options in these words; a float of so many digits is infinite."""
    config = {"Type": "json-file", "Config": {"max-size": f"{NINES}m"}}
    made = container("true", HostConfig={"NetworkMode": "none", "LogConfig": config})
    answer = daemon.request("POST", f"/containers/{made}/start")
    assert answer.status == 500
    assert f'failed to initialize logging driver: strconv.ParseFloat: parsing "{NINES}": value out of' in answer.message


def test_a_stop_waits_as_long_as_one_likes(daemon: Daemon, container: Callable[..., str]) -> None:
    """Longer than a clock of 64 bits of nanoseconds lasts."""
    made = container("sleep", "60")
    daemon.begin(made)
    assert daemon.request("POST", f"/containers/{made}/stop?signal=KILL&t=99999999999999999").status == 204
    assert daemon.inspect(made)["State"]["ExitCode"] == 137


@pytest.mark.parametrize("field", ["User", "WorkingDir"])
def test_a_nul_in_an_exec_is_refused(daemon: Daemon, container: Callable[..., str], field: str) -> None:
    """Before anything is started."""
    made = container("sleep", "60")
    daemon.begin(made)
    answer = daemon.request("POST", f"/containers/{made}/exec", {"Cmd": ["true"], field: "a\0b"})
    assert (answer.status, answer.message) == (
        400,
        f"invalid {field}: a NUL character cannot be passed to a command",
    )


def test_a_volume_of_a_host_that_cannot_be_is_refused_in_words(daemon: Daemon, busybox: str) -> None:
    """IDNA knows no label that is empty."""
    options = {"type": "nfs", "o": "addr=a..b", "device": ":/x"}
    assert daemon.request("POST", "/volumes/create", {"Name": "absurd", "DriverOpts": options}).status == 201
    answer = daemon.request("POST", "/containers/create", host(Binds=["absurd:/v"]))
    daemon.request("DELETE", "/volumes/absurd")
    assert answer.status == 500 and "lookup a..b: no such host" in answer.message, answer
