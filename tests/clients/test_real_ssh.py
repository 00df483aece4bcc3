"""A daemon behind a real sshd, on a host that has only this engine, under the names docker and engine.

sshd runs where the daemon is, in a mount namespace of its own, with keys that are made for it. The clients find an ssh
that asks for no settings of the user's and trusts that host.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clients.cli import said
from tests.harness.listening import until
from tests.harness.unpacked import installed

pytestmark = pytest.mark.seldom
COMMAND = (sys.executable, "-m", "engine")
PORT = 2222
DATA = bytes(range(256)) * 40960
SETTINGS = """
Port {port}
ListenAddress 127.0.0.1
HostKey {place}/host
AuthorizedKeysFile {place}/key.pub
StrictModes no
UsePAM no
PidFile none
PrintMotd no
SetEnv PATH={place}/there:/usr/bin:/bin
"""
# The user and the directory without which sshd does not start; /run is empty there.
_PREPARED = """mount --bind "$0/passwd" /etc/passwd
mount -t tmpfs none /run
mkdir -m 755 /run/sshd
exec "$@"
"""

Run = Callable[..., subprocess.CompletedProcess]


@pytest.fixture
def by_ssh(engine, world, tmp_path: Path) -> Iterator[Run]:
    """Runs a client that reaches the daemon by ssh alone."""
    sshd = shutil.which("sshd")
    if sshd is None or shutil.which("ssh") is None:
        pytest.skip("needs ssh and sshd")
    for name in ("host", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)], check=True)
    programs(tmp_path, engine.environment["ENGINE_HOST"])
    (tmp_path / "config").write_text(SETTINGS.format(port=PORT, place=tmp_path))
    users = [line for line in Path("/etc/passwd").read_text().splitlines() if not line.startswith("sshd:")]
    (tmp_path / "passwd").write_text("\n".join([*users, "sshd:x:105:65534::/run/sshd:/usr/sbin/nologin", ""]))
    served = [f"/usr/sbin/{Path(sshd).name}", "-D", "-e", "-f", str(tmp_path / "config")]
    command = installed(["sh", "-ec", _PREPARED, str(tmp_path), *served])
    log = tmp_path / "log"
    with log.open("wb") as file:
        server = subprocess.Popen(world.namespaces.command(command), stdout=file, stderr=file)
    address = f"ssh://root@127.0.0.1:{PORT}"
    own = {"DOCKER_HOST": address, "ENGINE_HOST": address, "PATH": f"{tmp_path}/here:{engine.environment['PATH']}"}

    def run(*words: str, **named: object) -> subprocess.CompletedProcess:
        command = world.namespaces.command(words)
        return subprocess.run(command, env=engine.environment | own, capture_output=True, timeout=60, **named)

    try:
        until(lambda: server.poll() is not None or "Server listening" in log.read_text())
        assert server.poll() is None, log.read_text()
        yield run
    finally:
        server.terminate()
        server.wait()


def programs(place: Path, listening: str) -> None:
    """What the other host has, and the ssh of this one."""
    for directory in ("there", "here"):
        (place / directory).mkdir()
    project = Path(__file__).resolve().parents[2]
    door = f'#!/bin/sh\nexec env ENGINE_HOST={listening} PYTHONPATH={project} {" ".join(COMMAND)} "$@"\n'
    trusted = f"-F /dev/null -i {place}/key -o StrictHostKeyChecking=no -o UserKnownHostsFile={place}/known"
    ssh = f'#!/bin/sh\nexec {shutil.which("ssh")} {trusted} "$@"\n'
    for name, text in (("there/docker", door), ("there/engine", door), ("here/ssh", ssh)):
        (place / name).write_text(text)
        (place / name).chmod(0o755)


@pytest.mark.parametrize("program", [("docker",), COMMAND], ids=["docker", "engine"])
def test_a_client_works_through_sshd(by_ssh: Run, busybox: str, program: tuple[str, ...]) -> None:
    if shutil.which(program[0]) is None:
        pytest.skip("needs the docker CLI")
    assert said(by_ssh(*program, "version", "-f", "{{.Server.Version}}"))
    result = by_ssh(*program, "run", "-i", "--rm", "busybox", "sh", "-c", "cat; echo err >&2; exit 7", input=DATA)
    assert (result.returncode, result.stdout == DATA, result.stderr) == (7, True, b"err\n")


def test_who_has_no_key_is_refused(by_ssh: Run, tmp_path: Path) -> None:
    (tmp_path / "key").unlink()
    failed = by_ssh(*COMMAND, "ps")
    assert (failed.returncode, failed.stdout) == (1, b"")
    assert b"Permission denied" in failed.stderr
