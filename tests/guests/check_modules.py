"""A host whose kernel finds no modprobe: the engine loads the kernel's modules itself."""

import os
import urllib.request
from pathlib import Path

from tests.guests.inside import Host

ANSWER = "while :; do printf 'HTTP/1.0 200 OK\\r\\n\\r\\nthere' | nc -l -p 80; done"


def check_everything_works_without_modprobe(host: Host) -> None:
    """An image with layers, a container of the default bridge, and its published port."""
    Path("/proc/sys/kernel/modprobe").write_text("/no/such/program\n")
    missing = [name for name in ("overlay", "bridge", "veth", "nf_tables") if not os.path.exists(f"/sys/module/{name}")]
    assert missing, "all of it is there already"
    with host.daemon():
        assert host.ask("GET", "/info")["Driver"] == "overlayfs"
        ports = {"PortBindings": {"80/tcp": [{"HostPort": "8080"}]}}
        one = host.begin("sh", "-c", ANSWER, HostConfig=ports)
        host.until(lambda: host.execute(one, "sh", "-c", "netstat -ltn | grep -q :80")[0] == 0)
        with urllib.request.urlopen("http://127.0.0.1:8080/", timeout=20) as answer:
            assert answer.read() == b"there"
        assert "engine-" in host.run("nft", "list", "tables"), "there is no firewall"
        host.remove(one)
    assert all(os.path.exists(f"/sys/module/{name}") for name in missing)
