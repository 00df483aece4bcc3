"""Configurations of dockerd as distributions, handbooks and other programs write them: taken, or refused in words.

Only `--validate` is asked, under the name dockerd: what each option does is tested where it is built.
"""

import contextlib
import io
import json
import sys
from pathlib import Path

import pytest

from engine.__main__ import daemon

MINIKUBE = (
    *("-H", "tcp://0.0.0.0:2376", "-H", "unix:///var/run/docker.sock", "--default-ulimit=nofile=1048576:1048576"),
    *("--tlsverify", "--tlscacert", "/etc/docker/ca.pem", "--tlscert", "/etc/docker/server.pem"),
    *("--tlskey", "/etc/docker/server-key.pem", "--label", "provider=docker", "--insecure-registry", "10.96.0.0/12"),
)
ENTERPRISE = (
    *("--selinux-enabled", "--log-driver=journald", "--storage-driver", "overlay2"),
    *("--exec-opt", "native.cgroupdriver=systemd", "--default-ulimit", "nofile=1024:4096", "--live-restore"),
)
LINES = {
    "Debian's unit": ("-H", "fd://"),
    "the unit of upstream's packages": ("-H", "fd://", "--containerd=/run/containerd/containerd.sock"),
    "docker in docker": ("--host=unix:///var/run/docker.sock", "--host=tcp://0.0.0.0:2375", "--tls=false"),
    "minikube": MINIKUBE,
    "Fedora's sysconfig": ENTERPRISE,
    "a mirror and a proxy": ("--registry-mirror=https://m.example.com", "--http-proxy", "http://p.example.com:3128"),
}
KUBERNETES = {
    "exec-opts": ["native.cgroupdriver=systemd"],
    "log-driver": "json-file",
    "log-opts": {"max-size": "100m", "max-file": "3"},
    "storage-driver": "overlay2",
    "storage-opts": ["overlay2.override_kernel_check=true"],
}
HARDENED = {
    "icc": False,
    "userns-remap": "default",
    "live-restore": True,
    "userland-proxy": False,
    "no-new-privileges": True,
    "log-driver": "syslog",
    "log-opts": {"syslog-address": "udp://192.0.2.1:514", "tag": "{{.Name}}"},
    "default-ulimits": {"nofile": {"Name": "nofile", "Hard": 64000, "Soft": 64000}},
    "authorization-plugins": ["opa-docker-authz"],
}
NETWORKS = {
    "default-address-pools": [{"base": "172.80.0.0/16", "size": 24}, {"base": "fd00:80::/48", "size": 64}],
    "bip": "172.26.0.1/16",
    "fixed-cidr": "172.26.1.0/24",
    "default-gateway": "172.26.0.254",
    "dns": ["9.9.9.9", "2620:fe::fe"],
    "dns-opts": ["timeout:1"],
    "dns-search": ["example.com"],
    "mtu": 1450,
}
TLS = {
    "hosts": ["unix:///var/run/docker.sock", "tcp://0.0.0.0:2376"],
    "tls": True,
    "tlsverify": True,
    "tlscacert": "/etc/docker/ca.pem",
    "tlscert": "/etc/docker/server.pem",
    "tlskey": "/etc/docker/serverkey.pem",
}
PROXIES = {
    "http-proxy": "http://proxy.example.com:3128",
    "https-proxy": "http://user:word@proxy.example.com:3128",
    "no-proxy": "*.test.example.com,.example.org,127.0.0.0/8",
}
GC = {"enabled": True, "policy": [{"keepStorage": "512MB", "filter": ["unused-for=168h"]}, {"all": True}]}
NVIDIA = {"path": "/usr/bin/nvidia-container-runtime", "runtimeArgs": []}
FILES: dict[str, dict] = {
    "nothing": {},
    "Kubernetes": KUBERNETES,
    "nvidia-ctk": {"runtimes": {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}},
    "NVIDIA by default": {"default-runtime": "nvidia", "runtimes": {"nvidia": NVIDIA}, "features": {"cdi": True}},
    "gVisor": {"runtimes": {"runsc": {"path": "/usr/local/bin/runsc", "runtimeArgs": ["--platform=systrap"]}}},
    "mirrors": {
        "registry-mirrors": ["https://mirror.example.com", "https://hub.example.net/"],
        "max-concurrent-downloads": 10,
        "max-concurrent-uploads": 5,
        "max-download-attempts": 5,
    },
    "a lab's registries": {"insecure-registries": ["myregistry:5000", "10.0.0.0/8", "hubproxy.docker.internal:5555"]},
    "a hardened host": HARDENED,
    "networks": NETWORKS,
    "IPv6": {"ipv6": True, "fixed-cidr-v6": "2001:db8:1::/64", "experimental": True, "ip6tables": True},
    "TLS": TLS,
    "proxies": {"proxies": PROXIES},
    "a builder that tidies up": {
        "builder": {"gc": {"defaultKeepStorage": "20GB", "enabled": True}},
        "experimental": False,
        "features": {"buildkit": True},
    },
    "a builder with rules": {"builder": {"gc": GC}},
    "another disk": {"data-root": "/mnt/docker-data", "exec-root": "/run/other", "pidfile": "/run/other.pid"},
    "Prometheus": {"metrics-addr": "127.0.0.1:9323", "experimental": True},
    "how it ends": {"live-restore": False, "shutdown-timeout": 60, "init": True, "default-stop-timeout": 5},
    "containerd's store": {"features": {"containerd-snapshotter": True}},
    "no firewall": {"iptables": False, "ip-forward": False, "ip-masq": False, "userland-proxy": False},
    "words of the log": {"debug": True, "log-level": "warn", "log-format": "json", "raw-logs": False},
    "namespaces": {"default-cgroupns-mode": "host", "default-ipc-mode": "shareable", "default-shm-size": "64M"},
    "a slice of its own": {"cgroup-parent": "docker.slice", **KUBERNETES},
    "resources of the host": {"node-generic-resources": ["NVIDIA-GPU=UUID1"], "labels": ["rack=7"]},
}
IN_FILE = "unable to configure the Docker daemon with file {file}: "
UNKNOWN = f"{IN_FILE}the following directives don't match any configuration option: "
DRIVERS = "this engine has overlay2, overlayfs, vfs, native"
REFUSED: dict[str, tuple[tuple[str, ...], dict, str]] = {
    "a list in both": (
        *(("-H", "fd://"), {"hosts": ["unix:///var/run/docker.sock"]}),
        f"{IN_FILE}the following directives are specified both as a flag and in the configuration file:"
        " hosts: (from flag: [fd://], from file: [unix:///var/run/docker.sock])",
    ),
    "a port for everybody": (
        *((), {"hosts": ["fd://", "tcp://0.0.0.0:2375"]}),
        "tcp://0.0.0.0:2375 without --tlsverify would give root to everyone who can reach it: refused."
        " With --tls=false or --tlsverify=false it is done all the same",
    ),
    "the data root's old name": ((), {"graph": "/mnt/docker-data"}, f"{UNKNOWN}graph"),
    "swarm of before": ((), {"cluster-store": "consul://localhost:8500"}, f"{UNKNOWN}cluster-store"),
    "a slip": ((), {"registry-mirror": ["https://m.example.com"]}, f"{UNKNOWN}registry-mirror"),
    "no list": ((), {"dns": "9.9.9.9"}, f'{IN_FILE}dns: expected a list of strings, got "9.9.9.9"'),
    "no flag": ((), {"debug": "true"}, f'{IN_FILE}debug: expected true or false, got "true"'),
    "btrfs": (
        *((), {"storage-driver": "btrfs"}),
        f"{IN_FILE}storage-driver: driver not supported: btrfs: {DRIVERS}",
    ),
    "devicemapper": (
        *((), {"storage-driver": "devicemapper"}),
        f"{IN_FILE}storage-driver: driver not supported: devicemapper: {DRIVERS}",
    ),
    "a quota": (
        *((), {"storage-driver": "overlay2", "storage-opts": ["overlay2.size=10G"]}),
        f"{IN_FILE}storage-opts: storage option overlay2.size is not built: it needs project quotas of the file system",
    ),
    "a shim": (
        *((), {"runtimes": {"kata": {"runtimeType": "io.containerd.kata.v2"}}}),
        f"{IN_FILE}runtimes: runtime kata: shims of containerd (runtimeType) are not run by this engine: give a path",
    ),
    "walls without a firewall": (
        *((), {"iptables": False, "icc": False}),
        "You specified --iptables=false with --icc=false. ICC=false uses iptables to function."
        " Please set --icc or --iptables to true",
    ),
    "a flag of before": (
        *(("--api-cors-header=*",), {}),
        "Status: unknown flag: --api-cors-header\nSee 'dockerd --help'., Code: 125",
    ),
}


@pytest.fixture
def judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What a daemon called dockerd says of words and a file: (its status, what it writes to stderr)."""
    file = tmp_path / "daemon.json"

    def judge(words: tuple[str, ...], document: dict) -> tuple[int, str]:
        file.write_text(json.dumps(document))
        monkeypatch.setattr(sys, "argv", ["/usr/bin/dockerd"])
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            status = daemon(["--validate", "--config-file", str(file), *words], seals=False)
        return status, said.getvalue().replace(str(file), "{file}").rstrip("\n")

    return judge


@pytest.mark.parametrize("words", LINES.values(), ids=LINES)
def test_a_command_line_is_taken(judged, words: tuple[str, ...]) -> None:
    assert judged(words, {}) == (0, "configuration OK")


@pytest.mark.parametrize("document", FILES.values(), ids=FILES)
def test_a_file_is_taken(judged, document: dict) -> None:
    """Beside the command line of Debian's unit, as far as they do not name the same."""
    assert judged(() if "hosts" in document else LINES["Debian's unit"], document) == (0, "configuration OK")


@pytest.mark.parametrize(("words", "document", "text"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_is_refused_in_words(judged, words: tuple[str, ...], document: dict, text: str) -> None:
    assert judged(words, document) == (1, text)
