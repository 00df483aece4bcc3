"""C and Python make the same container of the same sandbox: generated ones, and what a process inside sees of them."""

import re

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from engine.dataclass import replace
from engine.sandbox import capabilities, masks, mounts, plan
from engine.sandbox.spec import Device, Mount, Rlimit, Sandbox
from tests.harness.amounts import examples
from tests.sandbox import harness
from tests.sandbox.harness import Bench, Result

SEEN = r"""
id; pwd; hostname; umask; env | sort
grep -E '^(Cap|Seccomp:|NoNewPrivs|Groups|Uid|Gid|Sig[BIC])' /proc/self/status
cat /proc/self/limits /proc/self/oom_score_adj
ls -ln /dev | sed 's/[A-Z][a-z][a-z] .*:[0-9][0-9]//'; ls -l /proc/self/fd | sed 's/.* -> //' | grep -c .
readlink /proc/self/ns/pid > /dev/null; cut -d' ' -f5- /proc/self/mountinfo | sort; cat /proc/net/dev | cut -d: -f1
cat /etc/asked/* 2>&1; ls /sys/firmware 2>&1; cat /proc/sys/net/ipv4/ip_unprivileged_port_start
"""

users = st.sampled_from(
    [
        "",
        "0",
        "foo",
        "1000",
        "1000:10",
        "foo:wheel",
        ":wheel",
        "nobody",
        "x:y",
        "9" * 11,
        "007",
        "-1",
        "0:-1",
        "-",
        "1:1:1",
        "::",
    ]
)
variables = st.sampled_from(["A=b", "A=c=d", "HOME=/x", "HOME=", "BAD", "PATH=", "É=é", "PATH=/tmp::/bin"])
limits = st.sampled_from(
    [Rlimit("nofile", 5, 5), Rlimit("nofile", 99, 200), Rlimit("core", 9, 3), Rlimit("cpu", -1, -1)]
)
mounted = st.lists(
    st.sampled_from(
        [
            Mount("tmpfs", "tmpfs", "/etc/asked", ("nosuid", "nodev"), "size=64k", asked=True),
            Mount("tmpfs", "tmpfs", "/home/foo", ("ro",), "size=64k", asked=True),
            Mount("tmpfs", "tmpfs", "/proc/x", (), "", asked=True),
            Mount("tmpfs", "tmpfs", "/etc/passwd", (), "", asked=True),
            Mount("bind", "/etc/hostname", "/etc/asked/name", ("ro", "rbind"), asked=True),
            Mount("bind", "/etc/hostname", "/home", (), asked=True),
            Mount("bind", "/no/such", "/etc/asked/none", (), asked=True),
            Mount("bind", "/usr/share", "/proc", ("rbind",), asked=True),
            Mount("bind", "/usr/share", "/etc/asked/a/b", ("rbind", "rro", "noexec"), propagation="rslave", asked=True),
            Mount("bind", "/etc/hosts", "/etc/hosts", ("noatime", "nosuid")),
            Mount("tmpfs", "shm", "/dev/shm", ("nosuid",), "mode=1777,size=1m"),
        ]
    ),
    max_size=3,
    unique=True,
)
commands = st.sampled_from(
    [
        ("sh", "-c", SEEN),
        ("/bin/sh", "-c", SEEN),
        ("no-such",),
        ("/no/such", "x"),
        ("/etc",),
        ("/etc/passwd",),
        ("/etc/passwd/x",),
        ('a\nb"c',),
        ("/proc/self/exe",),
        ("script",),
    ]
)
changed = st.fixed_dictionaries(
    {
        "argv": commands | st.just(("sh", "-c", SEEN)),
        "env": st.lists(variables, max_size=4).map(lambda more: (harness.PATH, *more)),
    },
    optional={
        "user": users,
        "groups": st.lists(st.sampled_from(["wheel", "extra", "7", "nope"]), max_size=2).map(tuple),
        "cwd": st.sampled_from(["/", "/tmp", "/new/one", "relative", "/etc/passwd", "/home/foo/", "/../tmp"]),
        "hostname": st.sampled_from(["", "a", "h" * 65]),
        "domainname": st.sampled_from(["", "d"]),
        "namespaces": st.sampled_from(
            [("mount", "pid", "uts", "ipc", "net"), ("mount", "pid"), ("mount", "pid", "ipc", "net", "cgroup")]
        ),
        "devices": st.sampled_from([(), (*mounts.DEFAULT_DEVICES, Device("/dev/x/y", "b", 7, 1, 0o600, 3, 4))]),
        "masked_paths": st.sampled_from([(), (*masks.MASKED_PATHS, "/etc/group", "/etc/nothing")]),
        "readonly_paths": st.sampled_from([(), ("/home", "/etc/passwd/x")]),
        "capabilities": st.sampled_from([(), ("CAP_CHOWN",), capabilities.ALL]),
        "no_new_privileges": st.booleans(),
        "rlimits": st.lists(limits, max_size=2, unique_by=lambda each: each.name).map(tuple),
        "oom_score_adj": st.sampled_from([None, 0, 500]),
        "umask": st.sampled_from([0, 0o77]),
        "tty": st.booleans(),
        "rows": st.just(9),
        "sysctls": st.sampled_from([(("net.ipv4.ip_unprivileged_port_start", "80"),), (("net.ipv4.no_such", "1"),)]),
        "seccomp": st.just(b"\6\0\0\0\0\0\xff\x7f"),  # return SECCOMP_RET_ALLOW
    },
)


def made(bench: Bench, changes: dict, more: list[Mount], readonly: bool) -> Sandbox:
    """The sandbox, with a writable directory of its own."""
    sandbox = bench.sandbox(*changes["argv"], readonly=readonly)
    return replace(sandbox, mounts=(*sandbox.mounts, *more), **changes)


def seen(result: Result, sandbox: Sandbox) -> tuple:
    """All that came out, without what differs between any two containers."""
    place = sandbox.root.upper.rpartition("/")[0]

    def plain(text: str) -> str:
        return re.sub(r"pts/\d+|master:\d+|shared:\d+|:\d+ ", "", text.replace(place, "PLACE"))

    reports = [plain(repr(each)) for each in result.reports]
    return result.status, plain(result.out), plain(result.err), plain(result.terminal), reports


@pytest.mark.parametrize("bench", ["native", "native staged"], indirect=True)
@settings(
    max_examples=examples("ENGINE_TEST_EXAMPLES", 60, 8),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(changes=changed, more=mounted, readonly=st.booleans())
@example(changes={"argv": ("sh", "-c", SEEN), "env": (harness.PATH,)}, more=[], readonly=False)
@example(changes={"argv": ("sh", "-c", SEEN), "env": (harness.PATH,), "tty": True}, more=[], readonly=True)
def test_both_make_the_same(bench: Bench, changes: dict, more: list[Mount], readonly: bool) -> None:
    by_c, by_python = (made(bench, changes, more, readonly) for _ in range(2))
    assert seen(bench.run(by_c), by_c) == seen(harness.run(by_python), by_python)


@pytest.mark.parametrize("bench", ["native"], indirect=True)
def test_c_knows_what_every_ordinary_container_has(bench: Bench) -> None:
    """Else these tests would compare Python with itself."""
    assert plan.compiled(bench.sandbox("true")) is not None
    assert plan.compiled(bench.sandbox("true", user="foo", tty=True, readonly=True)) is not None


@pytest.mark.parametrize(
    ("passwd", "group"),
    [
        ("root:x:0:0:root:/root\nfoo:x:5:6::/f\n", "foo:x:6:\nmore:x:7:foo,bar\nless:x:8: foo\n"),
        ("foo:x:5:6\nfoo:x:9:9::/later", "foo:x:6:foo\r\n wheel:x:10:a,foo \n"),
        ("foo:x::6::/no\nfoo:x:-1:6::/no\nfoo:x:5:99999999999::/no\n", "a:x:b:foo\n:x:3:foo\n"),
        ("\n:::\n::::::\n:x:3:4::/empty\n", "\n:\n::\n:::\n"),
        ("5:x:0:0::/zero\n", "5:x:0:\n"),
        ("# who there is\n+\nfoo:x:5:6::/f\nfoo\nfoo:x\n", "+\nfoo:\nwheel:x:10\nwheel:x:11:foo\nwheel"),
        ("\0" * 5000, "\0" * 5000),
        ("foo:x:5:6::\n", "x:x:2147483648:foo\ny:x:2147483647:foo\n"),
    ],
)
@pytest.mark.parametrize("bench", ["native"], indirect=True)
@pytest.mark.parametrize("user", ["", "foo", "5", "foo:foo", "bar", "5:5", ":wheel"])
def test_both_find_the_same_user(bench: Bench, passwd: str, group: str, user: str) -> None:
    name = f"users{abs(hash((passwd, group)))}"
    if not (bench.layers / name).exists():
        layer = bench.layer(name)
        (layer / "etc").mkdir()
        (layer / "etc/passwd").write_text(passwd)
        (layer / "etc/group").write_text(group)
    script = "id -u; id -g; cat /proc/self/status | grep Groups; echo $HOME"
    results = []
    for run in (bench.run, harness.run):
        sandbox = bench.sandbox("sh", "-c", script, layers=("1", name), user=user, groups=("foo",))
        result = run(sandbox)
        results.append((result.status, result.out, [repr(each) for each in result.reports]))
    assert results[0] == results[1]
