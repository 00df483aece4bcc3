"""Sequences of calls about a container: any fields at create, any verbs in any state. Pure: of a `Random` alone."""

import json
from collections.abc import Iterator
from random import Random

from tests.api.fields import FIELDS
from tests.comparison.step import TAR, Step, query
from tests.harness import rootfs

SMALL = rootfs.archive([("made", 0o644, b"made")], (("folder", 0o755),), [("link", "made")])
SHORT = (["true"], ["sh", "-c", "echo out; echo err >&2; exit 3"], ["cat", "/etc/passwd"], ["nosuch"], ["/etc/passwd"])
ENDLESS = (["sleep", "300"], ["sh", "-c", "trap 'exit 7' TERM; while :; do sleep 0.1; done"])
PATHS = (
    "/etc/passwd",
    "/etc",
    "/",
    "/nosuch",
    "/bin/sh",
    "/proc/version",
    "/tmp/",
    "/etc/passwd/",
    "",
    "etc",
    "/dev/null",
)
UPDATES: tuple[dict, ...] = (
    {},
    {"CpuShares": 512},
    {"Memory": 64 << 20},
    {"Memory": 1000},
    {"PidsLimit": 50},
    {"CpusetCpus": "0"},
    {"CpusetCpus": "99"},
    {"RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 2}},
    {"RestartPolicy": {"Name": "nosuch"}},
    {"RestartPolicy": {"Name": "no", "MaximumRetryCount": 2}},
    {"BlkioWeight": 5},
    {"NanoCpus": 10**12},
    {"CpuPeriod": 100},
    {"MemoryReservation": 32 << 20},
    {"MemorySwap": 1},
)
EXECS: tuple[dict, ...] = (
    {"Cmd": ["echo", "hi"], "AttachStdout": True},
    {
        "Cmd": ["sh", "-c", "echo $A; id -u; pwd"],
        "AttachStdout": True,
        "Env": ["A=b"],
        "User": "1",
        "WorkingDir": "/tmp",
    },
    {"Cmd": ["nosuch"], "AttachStdout": True},
    {"Cmd": ["sh", "-c", "exit 4"]},
    {"Cmd": []},
    {"Cmd": ["true"], "User": "nosuch"},
    {"Cmd": ["true"], "WorkingDir": "/nosuch"},
    {"Cmd": ["tty"], "Tty": True, "AttachStdout": True},
    {"Cmd": ["true"], "DetachKeys": "ctrl-nosuch"},
    {"Cmd": ["grep", "Cap", "/proc/self/status"], "Privileged": True, "AttachStdout": True},
    {"Cmd": ["/etc/passwd"], "AttachStdout": True, "AttachStderr": True},
)
FILTERS: tuple[dict, ...] = (
    {"status": ["running"]},
    {"status": ["nosuch"]},
    {"exited": ["3"]},
    {"exited": ["x"]},
    {"label": ["a=b"]},
    {"health": ["none"]},
    {"network": ["none"]},
    {"ancestor": ["busybox"]},
    {"ancestor": ["nosuch:1"]},
    {"volume": ["/data"]},
    {"publish": ["80"]},
    {"expose": ["80/tcp", "1000-1002/udp"]},
    {"publish": ["x/y"]},
    {"is-task": ["true"]},
    {"is-task": ["x"]},
    {"nosuch": ["x"]},
    {"name": ["["]},
)


def merged(*bodies: dict) -> dict:
    """Several bodies as one, those below `HostConfig` and its like too."""
    found: dict = {}
    for body in bodies:
        for name, value in json.loads(json.dumps(body)).items():
            both = isinstance(found.get(name), dict) and isinstance(value, dict)
            found[name] = merged(found[name], value) if both else value
    return found


def bodies() -> list[dict]:
    """What the fields of create are tried with in tests/api, one for each field."""
    return [row.body for row in FIELDS.values() if hasattr(row, "body")]


def created(chance: Random, label: str) -> tuple[dict, bool]:
    """The body of a create, and whether its command ends by itself; label: what the sequence's things carry."""
    body = merged(*chance.sample(bodies(), chance.choice((0, 1, 1, 2, 3))))
    endless = chance.random() < 0.5
    body.setdefault("HostConfig", {}).setdefault("NetworkMode", chance.choice(("none", "none", "bridge", "host")))
    more = {"Image": "busybox", "Cmd": chance.choice(ENDLESS if endless else SHORT), "Labels": {"comparison": label}}
    body = {**body, **more}
    return body, not endless


def story(chance: Random, label: str) -> Iterator[Step]:
    """A container's life: created with any fields, then a dozen verbs, whatever it is doing."""
    name, other = f"{label}-a", f"{label}-b"
    body, ends = created(chance, label)
    yield Step("POST", query("/containers/create", name=name), body)
    yield Step("GET", f"/containers/{name}/json")
    if chance.random() < 0.8:
        yield Step("POST", f"/containers/{name}/start")
        if ends:
            yield Step("POST", f"/containers/{name}/wait")
    for _ in range(chance.randrange(6, 14)):
        yield from chance.choice(VERBS)(chance, name, other)
    yield Step("GET", f"/containers/{name}/json")
    yield Step("DELETE", query(f"/containers/{name}", v=chance.choice((0, 1)), force=chance.choice((0, 1))))
    yield Step("GET", f"/containers/{name}/json")


def begin(chance: Random, name: str, other: str) -> Iterator[Step]:
    """Start, once more or not; a short program ends before the next call."""
    yield Step("POST", f"/containers/{name}/start", rest=0.3)


def end(chance: Random, name: str, other: str) -> Iterator[Step]:
    """Stop, kill or restart, with good and bad values."""
    verb = chance.choice(
        (
            query("kill", signal=chance.choice(("KILL", "SIGKILL", "9", "nosuch", "99", "SIGUSR1", "RTMIN+1"))),
            "kill",
            query("stop", t=chance.choice((0, 1, "x"))),
            query("stop", t=5, signal=chance.choice(("KILL", "TERM", "nosuch"))),
            query("restart", t=0),
        )
    )
    yield Step("POST", f"/containers/{name}/{verb}")


def pause(chance: Random, name: str, other: str) -> Iterator[Step]:
    """Pause, something meanwhile, and the other way."""
    yield Step("POST", f"/containers/{name}/pause")
    verb = chance.choice(("pause", "start", "json", "stats?stream=0&one-shot=1"))
    method = "GET" if verb[0] in "js" and verb != "start" else "POST"
    yield Step(method, f"/containers/{name}/{verb}", shape=verb.startswith("stats"))
    yield Step("POST", f"/containers/{name}/unpause")
    yield Step("POST", f"/containers/{name}/unpause")


def rename(chance: Random, name: str, other: str) -> Iterator[Step]:
    """To another name and back, to none, to a bad one, to its own."""
    wanted = chance.choice((other, name, "", "/", "-bad", "a b", "x"))
    yield Step("POST", query(f"/containers/{name}/rename", name=wanted))
    if wanted in (other, "x"):
        yield Step("POST", query(f"/containers/{wanted}/rename", name=name))


def update(chance: Random, name: str, other: str) -> Iterator[Step]:
    """Limits and restart policies."""
    yield Step("POST", f"/containers/{name}/update", chance.choice(UPDATES))
    yield Step("GET", f"/containers/{name}/json")


def look(chance: Random, name: str, other: str) -> Iterator[Step]:
    """What tells of a container."""
    path, shape = chance.choice(
        (
            ("json", False),
            ("json?size=1", True),
            ("top", True),
            ("top?ps_args=-ef", True),
            ("top?ps_args=-o%20args", True),
            ("changes", False),
            ("stats?stream=0&one-shot=1", True),
            ("logs?stdout=1&stderr=1", False),
            ("logs", False),
            ("logs?stdout=1&tail=1", False),
            ("logs?stdout=1&tail=x", False),
            ("logs?stdout=1&since=x", False),
            ("logs?stdout=1&details=1", False),
            ("logs?stdout=1&stderr=1&until=1", False),
        )
    )
    yield Step("GET", f"/containers/{name}/{path}", shape=shape)


def execute(chance: Random, name: str, other: str) -> Iterator[Step]:
    """An exec from its making to its end."""
    yield Step("POST", f"/containers/{name}/exec", chance.choice(EXECS), saves="exec")
    yield Step("GET", "/exec/{exec}/json")
    if chance.random() < 0.3:
        yield Step("POST", query("/exec/{exec}/resize", h=chance.choice((10, 0, "x")), w=chance.choice((10, -1))))
    body = {"Detach": False, "Tty": chance.random() < 0.2}
    yield Step("POST", "/exec/{exec}/start", body)
    yield Step("POST", "/exec/{exec}/start", body)
    yield Step("GET", "/exec/{exec}/json")


def copy(chance: Random, name: str, other: str) -> Iterator[Step]:
    """Files out and in."""
    path = chance.choice(PATHS)
    kind = chance.choice(("HEAD", "GET", "PUT", "PUT"))
    if kind != "PUT":
        yield Step(
            kind, query(f"/containers/{name}/archive", path=path), shape=path in ("/", "/proc/version", "/bin/sh")
        )
        return
    no_overwrite = chance.choice((None, 1))
    content = chance.choice((SMALL, SMALL, b"", b"no tar" * 200))
    target = query(f"/containers/{name}/archive", path=path, noOverwriteDirNonDir=no_overwrite)
    yield Step("PUT", target, content, TAR)
    yield Step("GET", f"/containers/{name}/changes")


def keep(chance: Random, name: str, other: str) -> Iterator[Step]:
    """A commit, with good and bad changes."""
    change = chance.choice((None, "ENV A=b", "CMD x", "EXPOSE 80", "NOSUCH x", "RUN x", "LABEL a=b c=d", "USER 1"))
    image = f"{name}-image"
    parameters = {"container": name, "repo": image, "comment": "c", "author": "a", "changes": change}
    yield Step("POST", query("/commit", **parameters), {})
    yield Step("GET", f"/images/{image}/json")
    yield Step("DELETE", f"/images/{image}")


def attach(chance: Random, name: str, other: str) -> Iterator[Step]:
    """What was said, without a stream; sizes of a terminal."""
    if chance.random() < 0.5:
        yield Step("POST", query(f"/containers/{name}/attach", logs=1, stdout=1, stderr=chance.choice((0, 1))))
    else:
        yield Step("POST", query(f"/containers/{name}/resize", h=chance.choice((10, "x", -1)), w=10))


def listed(chance: Random, name: str, other: str) -> Iterator[Step]:
    """Lists with filters, of this sequence's containers."""
    label = name.removesuffix("-a")
    filters = {**chance.choice(FILTERS), "label": [f"comparison={label}"]}
    if chance.random() < 0.2:
        filters = {chance.choice(("since", "before")): [chance.choice((name, "nosuch"))], **filters}
    every = {"all": chance.choice((0, 1)), "limit": chance.choice((None, None, 1, -1, "x"))}
    yield Step("GET", query("/containers/json", filters=filters, **every))


def prune(chance: Random, name: str, other: str) -> Iterator[Step]:
    """Of this sequence's alone."""
    filters = {"label": [f"comparison={name.removesuffix('-a')}"]}
    yield Step("POST", query("/containers/prune", filters=chance.choice((filters, {**filters, "nosuch": ["x"]}))))


def clash(chance: Random, name: str, other: str) -> Iterator[Step]:
    """A second container of this name, of a bad one, of an image that is not here."""
    label = {"Labels": {"comparison": name.removesuffix("-a")}}
    wanted, image = chance.choice(((name, "busybox"), ("-bad", "busybox"), (other, "nosuch:1"), (other, "")))
    yield Step("POST", query("/containers/create", name=wanted), {"Image": image, "Cmd": ["true"], **label})


VERBS = (
    begin,
    end,
    pause,
    rename,
    update,
    look,
    look,
    execute,
    execute,
    copy,
    copy,
    keep,
    attach,
    listed,
    prune,
    clash,
)
