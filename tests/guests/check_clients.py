"""The clients that people have, in the guest, by README's words: the demo, the docker CLI, compose v2, the docker SDK.

The share brings them in `clients`: `bin`, `cli-plugins`, and the SDK with what it imports in `python`.
"""

import os
import re
import sys
from pathlib import Path

from tests.guests.inside import PROJECT, SOCKET, Host

CLIENTS = Path("/share/clients")
SHOP = "tests/data/shop"
# What the first commands of "Daily use" set for all that follow.
ENVIRONMENT = {
    "PATH": f"{CLIENTS}/bin:{os.environ.get('PATH', os.defpath)}",
    "DOCKER_HOST": f"unix://{SOCKET}",
    "HOME": "/root",
}


def words(heading: str) -> list[str]:
    """The blocks of commands below a heading of README."""
    section = re.split(r"^## ", (PROJECT / "README.md").read_text(), flags=re.MULTILINE)
    text = next(part for part in section if part.startswith(heading))
    return [
        "\n".join(line.strip() for line in block.splitlines()) for block in re.findall(r"(?:^    .*\n)+", text, re.M)
    ]


def shell(host: Host, script: str, directory: str = "") -> str:
    """What a script says, with the clients on its PATH."""
    settings = [f"{name}={value}" for name, value in (ENVIRONMENT | {"DOCKER_CONFIG": str(CLIENTS)}).items()]
    return host.run("env", "-C", str(PROJECT / directory), *settings, "sh", "-ec", script)


def check_the_demo_shows_a_container(host: Host) -> None:
    """It brings its own daemon."""
    assert "stream 1: hello from a container" in host.engine("demo")


def check_the_commands_of_installing_start_the_service(host: Host) -> None:
    """And images are made of the guest's own programs, as on a host that reaches no registry."""
    shell(host, next(block for block in words("Install") if "install-units" in block))
    host.until(host.answers)
    assert host.run("systemctl", "is-active", "engine.socket").strip() == "active"
    for image in ("busybox:latest busybox", "redis:7 redis-server redis-cli busybox"):
        host.engine("image-from-host", *image.split())


def check_the_commands_of_daily_use_work(host: Host) -> None:
    """All of the first block, but for the daemon, which the service is."""
    commands = words("Daily use")[0].replace("python3 -m engine daemon &\n", "")
    said = shell(host, commands, "..")
    assert "\nhello\n" in said and said.count("built") >= 1 and "Loaded image: it:latest" in said, said


def check_the_shop_takes_orders(host: Host) -> None:
    """Compose v2 brings it up, scales it, looks into it, and takes it down."""
    commands = next(block for block in words("Daily use") if "docker-compose up" in block)
    commands = commands.replace("docker-compose", "docker compose").replace(f"cd {SHOP} ", "true ")
    said = shell(host, commands, SHOP)
    assert "taken 1" in said and re.search(r"^\d+$", said, re.MULTILINE), said
    assert host.ask("GET", "/containers/json", all=1) == []


def check_the_sdk_has_its_flow(host: Host) -> None:
    """Create, start, wait, logs, exec, remove."""
    script = """
import docker
client = docker.from_env()
assert client.containers.run("busybox", ["echo", "hi"], remove=True) == b"hi\\n"
one = client.containers.create("busybox", ["sh", "-c", "echo out; echo err >&2; exit 3"])
one.start()
assert one.wait()["StatusCode"] == 3
assert one.logs(stdout=True, stderr=False) == b"out\\n" and one.logs(stdout=False, stderr=True) == b"err\\n"
one.remove()
two = client.containers.run("busybox", ["sleep", "1000"], detach=True)
assert two.exec_run(["echo", "there"]) == (0, b"there\\n")
two.stop(timeout=0)
two.remove()
"""
    settings = [f"{name}={value}" for name, value in (ENVIRONMENT | {"PYTHONPATH": str(CLIENTS / "python")}).items()]
    host.run("env", *settings, sys.executable, "-c", script)
