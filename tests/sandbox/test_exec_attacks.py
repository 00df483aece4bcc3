"""Attempts to get out of a container, or to be more than was granted, by way of an exec.

The container is hostile and runs already: it may have prepared its files, and watches each newcomer. Each test is named
after the published flaw it repeats, where there is one.
"""

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness import execs
from tests.harness.daemon import Daemon
from tests.harness.listening import until

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("busybox")]

OURS = 'OCI runtime exec failed: exec failed: unable to start container process: exec: "'
DOCKERS_CAPABILITIES = 0xA80425FB
PTRACE = 1 << 19

# Spins over all processes that it sees, and says what is not as it should be of any but itself and process 1.
WATCHER = r"""
touch /tmp/watching
while [ ! -e /tmp/stop ]; do
  for p in /proc/[0-9]*; do
    case $p in /proc/1|/proc/$$) continue;; esac
    [ -e $p/root@MARKER@ ] && echo "root of $p is the host's"
    [ -e $p/cwd@MARKER@ ] && echo "directory of $p is the host's"
    for f in $p/fd/*; do
      [ -e $f@MARKER@ ] && echo "$f leads out"
      t=$(readlink $f) && echo "fd ${t%%:*}"
    done
    grep -E '^Cap(Prm|Eff|Bnd):' $p/status
    grep -q ENGINE_TEST_SESSION $p/environ && echo "variables of $p are the daemon's"
  done 2>/dev/null
done
"""


@pytest.fixture
def marker(tmp_path: Path) -> Iterator[str]:
    """A file of the host's that no container may see."""
    path = tmp_path / "marker-of-the-host"
    path.touch()
    yield str(path)


@pytest.fixture
def box(daemon: Daemon, container: Callable[..., str]) -> str:
    """A container that runs."""
    one = container("sleep", "600")
    daemon.begin(one)
    return one


def prepare(daemon: Daemon, box: str, script: str) -> None:
    """What the container has done before."""
    execs.shell(daemon, box, script)


def test_cve_2016_9962_a_newcomer_has_nothing_to_be_had_by_ptrace(
    daemon: Daemon, container: Callable[..., str], marker: str
) -> None:
    """Root, directory, descriptors and capabilities of every process ever seen are the container's, though it may
    trace: nobody is to be seen before that is so."""
    script = WATCHER.replace("@MARKER@", marker)
    granted = {"NetworkMode": "none", "CapAdd": ["SYS_PTRACE"], "SecurityOpt": ["seccomp=unconfined"]}
    one = container("sh", "-c", script, HostConfig=granted)
    daemon.begin(one)
    until(lambda: execs.run(daemon, one, "test", "-e", "/tmp/watching").code == 0)
    for number in range(60):
        # Also the way on which the newborn looks for its command itself.
        argv = ("true",) if number % 2 else ("no-such-command",)
        assert execs.run(daemon, one, *argv).code in (0, 127)
        execs.run(daemon, one, "true", Tty=True)
    execs.run(daemon, one, "touch", "/tmp/stop")  # it may be killed by the end that it brings about
    daemon.wait(one)
    said = daemon.request("GET", f"/containers/{one}/logs?stdout=1&stderr=1").body.decode("latin1")
    assert "is the host's" not in said and "leads out" not in said and "are the daemon's" not in said
    found = {int(bits, 16) for bits in re.findall(r"Cap\w+:\t(\w+)", said)}
    assert found, said
    assert all(not bits & ~(DOCKERS_CAPABILITIES | PTRACE) for bits in found), [hex(bits) for bits in found]


@pytest.mark.parametrize("number", range(3, 14))
def test_cve_2024_21626_a_working_directory_cannot_be_a_leaked_descriptor(
    daemon: Daemon, box: str, marker: str, number: int
) -> None:
    """Neither by name nor behind a link, and no descriptor is there to be used."""
    prepare(daemon, box, f"ln -sfn /proc/self/fd/{number} /tmp/link")
    for directory in (f"/proc/self/fd/{number}", f"/proc/self/fd/{number}/../..", "/tmp/link"):
        said = execs.run(daemon, box, "sh", "-c", f"pwd; ls -d .{marker} ../../../../..{marker}", WorkingDir=directory)
        assert said.code in (126, 127) and "chdir to cwd" in said.out, said


def test_a_working_directory_behind_links_stays_inside(daemon: Daemon, box: str, marker: str) -> None:
    """`..` and links end at the container's root."""
    prepare(daemon, box, "ln -sfn ../../../../../../.. /tmp/up; ln -sfn /proc/1/root /tmp/root")
    said = execs.run(daemon, box, "sh", "-c", f"pwd -P; ls .{marker}", WorkingDir="/tmp/up")
    assert said.out == "/\n" and said.code != 0
    said = execs.run(daemon, box, "pwd", WorkingDir="/tmp/root")
    assert said.code in (126, 127) and "chdir to cwd" in said.out


SCRIPTS = {
    "script": "#!/proc/self/exe\n",
    "second": "#!/bin/script\n",
    "spaced": "#! \\t../proc/self/exe -c\n",
    "by-link": "#!/bin/link\n",
    "thread": "#!/proc/thread-self/exe\n",
    "first": "#!/proc/1/exe\n",
}


@pytest.mark.parametrize("argv", ["/proc/self/exe", "/bin/link", "link", *(f"/bin/{name}" for name in SCRIPTS)])
def test_cve_2019_5736_the_engines_own_program_cannot_be_run(daemon: Daemon, box: str, argv: str) -> None:
    """By a magic link of /proc, as a command, as an interpreter, as an interpreter's interpreter."""
    for name, text in SCRIPTS.items():
        line = text.strip().replace("\\t", "\t")
        prepare(daemon, box, f"printf '%s\\n' '{line}' > /bin/{name}; chmod 755 /bin/{name}")
    prepare(daemon, box, "ln -sfn /proc/self/exe /bin/link")
    said = execs.run(daemon, box, argv, "-c", "print('outside')")
    assert said.code in (126, 127) and said.out.startswith(OURS), said


def test_cve_2022_24769_nothing_is_inheritable(daemon: Daemon, box: str) -> None:
    """Neither inheritable nor ambient capabilities, for root, for others, with and without Privileged."""
    for user in ("", "1000"):
        for privileged in (False, True):
            said = execs.shell(
                daemon, box, "grep -E 'Cap(Inh|Amb)' /proc/self/status", User=user, Privileged=privileged
            )
            assert re.findall(r"\t(\w+)", said) == ["0" * 16] * 2
    said = execs.shell(daemon, box, "grep -E 'Cap(Prm|Eff)' /proc/self/status", User="1000", Privileged=True)
    assert re.findall(r"\t(\w+)", said) == ["0" * 16] * 2


def test_cve_2022_36109_the_groups_are_the_users_and_no_others(daemon: Daemon, box: str) -> None:
    """The primary group is among the supplementary ones, and none of the engine's is."""
    assert execs.shell(daemon, box, "grep Groups /proc/self/status", User="1000:1234").split() == ["Groups:", "1234"]
    assert execs.shell(daemon, box, "grep Groups /proc/self/status", User="1000").split() == ["Groups:", "0"]


@pytest.mark.parametrize("tty", [False, True])
def test_no_descriptor_of_the_engine_survives(daemon: Daemon, box: str, tty: bool) -> None:
    """0, 1 and 2, and what ls itself opens."""
    said = execs.run(daemon, box, "sh", "-c", "ls /proc/$$/fd; true", Tty=tty)
    assert set(said.out.split()) <= {"0", "1", "2", "10"}  # the shell's own copy of its terminal


@pytest.mark.parametrize("instead", ["true", "ln -s /tmp/secret /dev/null", "mknod /dev/null b 1 3"])
def test_the_hosts_null_device_does_not_stay_open_where_there_is_none(daemon: Daemon, box: str, instead: str) -> None:
    """Root of the container could change its mode; and nothing else is opened in its place."""
    execs.run(daemon, box, "sh", "-c", f"echo secret > /tmp/secret; chmod 0 /tmp/secret; rm /dev/null; {instead}")
    said = execs.run(daemon, box, "sh", "-c", "test -f /proc/self/fd/0 && cat && echo more >&0")
    assert (said.code, said.out) == (0, "")
    assert execs.run(daemon, box, "cat", "/tmp/secret").out == "secret\n"


def test_the_session_is_its_own(daemon: Daemon, box: str) -> None:
    """And no process of the engine's is to be seen."""
    assert execs.shell(daemon, box, "cut -d' ' -f6 /proc/$$/stat; echo $$").split()[0] != "0"
    assert execs.shell(daemon, box, "[ $(cut -d' ' -f6 /proc/$$/stat) = $$ ] && echo own") == "own"
    assert execs.shell(daemon, box, "cat /proc/[0-9]*/comm | grep -c python; true") == "0"


def test_signals_are_at_their_defaults(daemon: Daemon, box: str) -> None:
    """Neither ignored nor blocked, whatever Python and the C library have."""
    said = execs.run(daemon, box, "grep", "-E", "Sig(Blk|Ign)", "/proc/self/status")
    assert re.findall(r"\t(\w+)", said.out) == ["0" * 16] * 2


@pytest.mark.parametrize("trap", ["mkfifo /etc/passwd", "ln -s /dev/zero /etc/passwd", "mkdir /etc/passwd"])
def test_a_passwd_file_that_never_ends_or_is_a_device_is_refused(daemon: Daemon, box: str, trap: str) -> None:
    """Nobody waits for it: not at create, which looks for the user, and not at start."""
    made = execs.create(daemon, box, "id")
    prepare(daemon, box, f"rm -f /etc/passwd; {trap}")
    answer = daemon.request("POST", f"/containers/{box}/exec", {"Cmd": ["id"], "User": "foo"})
    assert answer.status == 400 and "not a regular file" in answer.message
    with execs.attached(daemon, made) as connection:
        assert b"not a regular file" in connection.read_to_end()


def test_an_exec_is_under_the_containers_limit_of_processes(daemon: Daemon, container: Callable[..., str]) -> None:
    """Its own processes count, and it can make no more than are left."""
    one = container("sleep", "600", HostConfig={"NetworkMode": "none", "PidsLimit": 4})
    daemon.begin(one)
    said = execs.run(daemon, one, "sh", "-c", "for i in 1 2 3 4; do sleep 600 >/dev/null 2>&1 & done; wait")
    assert "Resource temporarily unavailable" in said.err or "can't fork" in said.err


def test_what_another_container_was_started_with_is_not_in_the_memory_of_a_newcomer(
    daemon: Daemon, container: Callable[..., str]
) -> None:
    """A newcomer that may be traced has a copy of the spawner's memory. So the spawner forgets each request."""
    secret = f"secret-{os.urandom(8).hex()}"
    other = container("sleep", "600", Env=["LONG=" + "x" * 9000, f"SECRET={secret}"])
    daemon.begin(other)
    assert secret in execs.run(daemon, other, "env", Env=[f"MORE={secret}"]).out
    children = Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children")
    assert secret.encode() not in memory(int(children.read_text().split()[0]))


def memory(pid: int) -> bytes:
    """What a process has written, as its tracer would have it."""
    parts = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as mem:
        for place, rights, *_ in map(str.split, maps):
            first, last = (int(end, 16) for end in place.split("-"))
            if rights.startswith("rw"):
                mem.seek(first)
                parts.append(mem.read(last - first))
    return b"".join(parts)


def test_cve_2019_5736_what_the_engine_runs_cannot_be_written_through_a_process(own_daemon: Daemon) -> None:
    """However a container gets hold of it: daemon and spawner, the replaced one too, run from a read-only mount."""
    children = Path(f"/proc/{own_daemon.pid}/task/{own_daemon.pid}/children")
    spawner = int(children.read_text().split()[0])
    os.kill(spawner, signal.SIGKILL)
    own_daemon.run("true")
    replaced = int(children.read_text().split()[0])
    assert replaced != spawner
    for pid in (own_daemon.pid, replaced):
        assert os.statvfs(f"/proc/{pid}/exe").f_flag & os.ST_RDONLY, pid
