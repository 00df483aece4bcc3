"""The daemon's settings: command line, daemon.json, and that engine/README.md shows the same options."""

import functools
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from engine.commandline import parse
from engine.dataclass import fields
from engine.errors import Invalid
from engine.settings import advertised, configfile, elsewhere, every, whose
from engine.settings.gcpolicy import GcPolicy
from tests.__main__ import LOCAL

ROOT = Path(__file__).parents[3]


def made(tmp_path, arguments=(), document=None, uid=0, environ=None, name=""):
    config = tmp_path / "daemon.json"
    config.write_text(document if isinstance(document, str) else json.dumps(document or {}))
    return every.from_arguments(["--config-file", str(config), *arguments], environ or {}, uid, name)


def refusal(call, *arguments, **named):
    with pytest.raises(Invalid) as caught:
        call(*arguments, **named)
    return str(caught.value)


def test_the_readme_shows_the_options_as_they_are_declared():
    assert every.options_table() in (ROOT / "engine" / "README.md").read_text()


def test_every_setting_has_one_option_and_every_option_a_setting():
    kept = [each for each in (*every.OPTIONS, *every.FILE_ONLY) if each.key and each not in elsewhere.OPTIONS]
    keys = [option.key.rpartition(".")[2].replace("-", "_") for option in kept]
    assert sorted([*keys, "as_dockerd", "notes", "unguarded"]) == sorted(each.name for each in fields(every.Settings))


def test_the_help_text_fits_a_page_and_names_every_option():
    text = every.usage()
    assert max(map(len, text.splitlines())) <= 80
    assert all(f"--{option.name}" in text for option in every.OPTIONS)


def test_nothing_said_gives_the_defaults_of_root(tmp_path):
    chosen = made(tmp_path)
    assert chosen.hosts == ("unix:///run/engine.sock",)
    assert (chosen.data_root, chosen.exec_root) == ("/var/lib/engine", "/run/engine")
    assert (chosen.debug, chosen.log_level, chosen.muxer) == (False, "info", "auto")


def test_a_users_daemon_listens_in_the_users_runtime_directory(tmp_path):
    assert made(tmp_path, uid=7, environ={"XDG_RUNTIME_DIR": "/x"}).hosts == ("unix:///x/engine.sock",)
    assert made(tmp_path, uid=7).hosts == ("unix:///run/user/7/engine.sock",)


def test_a_users_daemon_has_its_places_below_the_users_directories(tmp_path):
    chosen = made(tmp_path, uid=7, environ={"XDG_RUNTIME_DIR": "/x", "HOME": "/h"})
    assert (chosen.data_root, chosen.exec_root) == ("/h/.local/share/engine", "/x/engine")
    assert chosen.pidfile == "/x/engine.pid"
    chosen = made(tmp_path, uid=7, environ={"XDG_RUNTIME_DIR": "/x", "HOME": "/h", "XDG_DATA_HOME": "/d"})
    assert chosen.data_root == "/d/engine"


def test_a_program_called_dockerd_has_dockerds_places_and_the_engines_roots(tmp_path):
    chosen = every.from_arguments([], {}, 0, whose.DOCKERD)
    assert (chosen.hosts, chosen.group) == (("unix:///var/run/docker.sock",), "docker")
    assert (chosen.pidfile, chosen.data_root, chosen.exec_root) == (
        *("/var/run/docker.pid", "/var/lib/engine", "/run/engine"),
    )
    assert chosen.log_format == "logfmt"
    assert every.from_arguments(["--log-format", "text"], {}, 0, whose.DOCKERD).log_format == "logfmt"
    assert every.from_arguments(["--log-format", "json"], {}, 0, whose.DOCKERD).log_format == "json"
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker" / "daemon.json").write_text('{"debug": true}')
    users = {"XDG_RUNTIME_DIR": "/x", "XDG_CONFIG_HOME": str(tmp_path), "HOME": "/h"}
    chosen = every.from_arguments([], users, 7, whose.DOCKERD)
    assert (chosen.hosts, chosen.pidfile, chosen.debug) == (("unix:///x/docker.sock",), "/x/docker.pid", True)


def test_a_program_called_dockerd_refuses_in_dockerds_form():
    with pytest.raises(Invalid) as caught:
        every.from_arguments(["--nope"], {}, 0, whose.DOCKERD)
    assert str(caught.value) == "Status: unknown flag: --nope\nSee 'dockerd --help'., Code: 125"
    with pytest.raises(Invalid) as caught:
        every.from_arguments(["extra"], {}, 0, whose.DOCKERD)
    assert str(caught.value) == "\"dockerd\" accepts no argument(s).\nSee 'dockerd --help'."


def test_the_version_and_the_help_name_the_program():
    assert every.version(whose.DOCKERD) == f"Docker version {advertised.REPORTED_VERSION}, build engine"
    assert every.version() == f"engine {advertised.VERSION}"
    assert every.usage(whose.DOCKERD).startswith("Usage: dockerd [OPTIONS]\n")
    assert every.usage().startswith("Usage: engine daemon [OPTIONS]\n")


@pytest.mark.parametrize(
    ("words", "asked"),
    [([], ""), (["-D"], ""), (["-D", "--validate"], "validate"), (["-v"], "version"), (["--help", "-v"], "help")],
)
def test_what_a_command_line_asks_for_in_place_of_a_daemon(words, asked):
    assert every.asked(words) == asked


def test_what_is_said_comes_before_the_users_places(tmp_path):
    environ = {"XDG_RUNTIME_DIR": "/x", "HOME": "/h"}
    assert made(tmp_path, ["--exec-root", "/e"], {"data-root": "/f"}, 7, environ).data_root == "/f"
    assert made(tmp_path, ["--exec-root", "/e"], {"data-root": "/f"}, 7, environ).exec_root == "/e"


def test_the_file_gives_every_key_of_the_table(tmp_path):
    document = {
        "hosts": ["unix:///a", "fd://"],
        "data-root": "/d",
        "exec-root": "/e",
        "pidfile": "/p",
        "group": "docker",
        "debug": True,
        "log-level": "warn",
        "registry-mirrors": ["https://m"],
        "insecure-registries": ["r:5000"],
        "muxer": "python",
        "tls": True,
        "log-format": "json",
        "report-version": "29.0",
        "labels": ["a=b"],
        "node-generic-resources": ["gpu=2"],
        "metrics-addr": "127.0.0.1:9323",
        "experimental": True,
        "features": {"buildkit": False},
        "min-api-version": "1.30",
        "max-concurrent-downloads": 1,
        "max-concurrent-uploads": 2,
        "max-download-attempts": 3,
        "proxies": {"http-proxy": "http://p:1", "https-proxy": "http://p:2", "no-proxy": "x"},
        "storage-driver": "overlay2",
        "live-restore": False,
        "shutdown-timeout": 7,
        "default-cgroupns-mode": "host",
        "default-ipc-mode": "shareable",
        "default-shm-size": "1m",
        "default-stop-timeout": 0,
        "cdi-spec-dirs": ["/etc/cdi", ""],
        "runtimes": {"crun": {"path": "/c"}},
        "default-runtime": "crun",
        "no-new-privileges": True,
        "userns-remap": "default",
        "seccomp-profile": "/seccomp.json",
        "allow-direct-routing": True,
        "bridge-accept-fwmark": "0x1/3",
        "init": True,
        "init-path": "/i",
        "default-ulimits": {"nofile": {"Name": "nofile", "Soft": 5, "Hard": 9}, "core": {"Soft": 0, "Hard": -1}},
        "exec-opts": ["native.cgroupdriver=systemd"],
        "cpu-rt-period": 1000000,
        "cpu-rt-runtime": 500000,
        "cgroup-parent": "a.slice",
        "selinux-enabled": True,
        "log-driver": "json-file",
        "log-opts": {"max-size": "1m", "tag": "a=b"},
        "tlsverify": True,
        "tlscacert": "/ca",
        "tlscert": "/c",
        "tlskey": "/k",
        "bridge": "",
        "bip": "10.9.0.1/16",
        "bip6": "fd09::1/64",
        "fixed-cidr": "10.9.1.0/24",
        "fixed-cidr-v6": "fd09::/80",
        "default-gateway": "10.9.0.254",
        "default-gateway-v6": "fd09::fe",
        "ipv6": True,
        "mtu": 1400,
        "idle-exit": 90,
        "icc": True,
        "ip-masq": False,
        "ip": "127.0.0.1",
        "ip-forward": False,
        "ip-forward-no-drop": True,
        "iptables": False,
        "ip6tables": False,
        "userland-proxy": False,
        "default-address-pools": [{"base": "10.0.0.0/8", "size": 24}, {"base": "fd01::/48", "size": 64}],
        "default-network-opts": {"bridge": {"com.docker.network.driver.mtu": "1234"}},
        "dns": ["9.9.9.9"],
        "dns-search": ["example.org"],
        "dns-opts": ["ndots:2"],
        "host-gateway-ips": ["10.1.1.1", "fd00::1"],
        "builder": {"entitlements": {"security-insecure": True}, "gc": {"enabled": False}},
        "authorization-plugins": ["a", "b"],
        "plugin-dirs": ["/p"],
    }
    kept = [each for each in (*every.OPTIONS, *every.FILE_ONLY) if each not in elsewhere.OPTIONS]
    grouped = {f"{group}.{name}" for group in configfile.GROUPS for name in document[group]}
    assert document.keys() - set(configfile.GROUPS) | grouped == {option.key for option in kept if option.key}
    chosen = made(tmp_path, document=document)
    expected = document | {
        "hosts": ("unix:///a", "fd://"),
        "registry-mirrors": ("https://m/",),
        "insecure-registries": ("r:5000",),
        "default-ulimits": ("nofile=5:9", "core=0:-1"),
        "exec-opts": ("native.cgroupdriver=systemd",),
        "log-opts": ("max-size=1m", "tag=a=b"),
        "mtu": "1400",
        "default-address-pools": ("10.0.0.0/8,24", "fd01::/48,64"),
        "default-network-opts": ("bridge=com.docker.network.driver.mtu=1234",),
        "dns": ("9.9.9.9",),
        "dns-search": ("example.org",),
        "dns-opts": ("ndots:2",),
        "host-gateway-ips": ("10.1.1.1", "fd00::1"),
        "entitlements": ("network-host", "security-insecure"),
        "gc": GcPolicy(enabled=False),
        "labels": ("a=b",),
        "node-generic-resources": ("gpu=2",),
        "features": ("buildkit=false",),
        "default-shm-size": 1 << 20,
        "authorization-plugins": ("a", "b"),
        "plugin-dirs": ("/p",),
        "cdi-spec-dirs": ("/etc/cdi",),
        "runtimes": ('crun=["/c"]',),
        "unguarded": False,
        "as_dockerd": False,
        "notes": (),
        **document["proxies"],
    }
    del expected["proxies"], expected["builder"]
    assert chosen == every.Settings(**{key.replace("-", "_"): value for key, value in expected.items()})


def test_an_empty_value_in_the_file_is_the_default(tmp_path):
    assert made(tmp_path, document={"hosts": []}).hosts == ("unix:///run/engine.sock",)
    chosen = made(
        tmp_path, document={"data-root": "", "shutdown-timeout": 0, "log-opts": {}, "default-stop-timeout": 0}
    )
    assert (chosen.data_root, chosen.shutdown_timeout, chosen.default_stop_timeout) == ("/var/lib/engine", 15, 0)


def test_no_directories_of_cdi_files_are_none_and_not_the_usual_ones(tmp_path):
    assert made(tmp_path, document={"cdi-spec-dirs": []}).cdi_spec_dirs == ()
    assert made(tmp_path).cdi_spec_dirs == ("/etc/cdi", "/var/run/cdi")


def test_the_oldest_version_may_stand_in_the_environment(tmp_path):
    chosen = made(tmp_path, document={"min-api-version": "1.30"}, environ={"DOCKER_MIN_API_VERSION": "1.40"})
    assert chosen.min_api_version == "1.40"
    with pytest.raises(Invalid, match=r"invalid DOCKER_MIN_API_VERSION: minimum supported API version is 1\.24: 1\.2"):
        made(tmp_path, environ={"DOCKER_MIN_API_VERSION": "1.2"})


def test_what_changes_nothing_is_noted(tmp_path):
    chosen = made(tmp_path, ["--containerd", "/run/containerd/containerd.sock"], {"features": {"nri": True}})
    assert [note.partition(" has no effect")[0] for note in chosen.notes] == ["--containerd", "--feature nri=true"]
    assert made(tmp_path, ["--feature", "buildkit=0"], {"containerd": "x"}).notes[0].startswith("--containerd has no")


def test_an_empty_file_and_a_byte_order_mark_are_read(tmp_path):
    assert made(tmp_path, document=" \n").debug is False
    assert made(tmp_path, document='\ufeff{"debug": true}').debug is True


def test_a_key_in_both_places_is_refused_in_dockerds_words(tmp_path):
    text = refusal(made, tmp_path, ["-H", "unix:///a", "-D"], {"hosts": ["unix:///b"], "debug": True, "group": "g"})
    assert text.endswith(
        "the following directives are specified both as a flag and in the configuration file: "
        "debug: (from flag: true, from file: true), hosts: (from flag: [unix:///a], from file: [unix:///b])"
    )


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"foo": 1, "bar": 2}, "the following directives don't match any configuration option: bar, foo"),
        ({"debug": "x"}, 'debug: expected true or false, got "x"'),
        ({"data-root": 1}, "data-root: expected a string, got 1"),
        ({"hosts": "unix:///a"}, 'hosts: expected a list of strings, got "unix:///a"'),
        ({"hosts": [1]}, "hosts: expected a list of strings, got [1]"),
        ({"log-level": "loud"}, "log-level: invalid logging level: loud: give one of debug, info, warn, error, fatal"),
        ("[]", "invalid JSON: not an object"),
        ('{"debug":', "invalid JSON: Expecting value"),
    ],
)
def test_a_wrong_file_is_refused_and_named(tmp_path, document, text):
    found = refusal(made, tmp_path, document=document)
    assert found.startswith(f"unable to configure the Docker daemon with file {tmp_path}/daemon.json: ")
    assert text in found


def test_a_missing_file_matters_only_when_it_was_asked_for(tmp_path):
    text = refusal(every.from_arguments, ["--config-file", str(tmp_path / "nope")], {}, 0)
    assert text.endswith("No such file or directory")
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert every.from_arguments([], environ, 7).debug is False
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "daemon.json").write_text('{"debug": true}')
    assert every.from_arguments([], environ, 7).debug is True


@pytest.mark.parametrize("text", ["m", "ftp://m", "https://", "https://u:p@m", "https://m?x", "https://m/#x"])
def test_a_mirror_that_is_no_plain_url_is_refused(tmp_path, text):
    with pytest.raises(Invalid):
        made(tmp_path, ["--registry-mirror", text])


@pytest.mark.parametrize(
    ("text", "wanted"), [("nofile=5", "nofile=5:5"), ("nproc=5:9", "nproc=5:9"), ("core=-1", "core=-1:-1")]
)
def test_a_default_limit_is_completed(tmp_path, text, wanted):
    assert made(tmp_path, ["--default-ulimit", text]).default_ulimits == (wanted,)


@pytest.mark.parametrize(
    "text", ["nofile", "nofile=", "nofile=a", "nofile=9:5", "nofile=-1:5", "nofoo=1", "nofile=1:2:3"]
)
def test_a_default_limit_that_is_none_is_refused(tmp_path, text):
    with pytest.raises(Invalid, match="ulimit"):
        made(tmp_path, ["--default-ulimit", text])


def test_mirrors_and_registries_are_brought_to_one_form(tmp_path):
    chosen = made(tmp_path, ["--registry-mirror", "http://m:5000", "--insecure-registry", "http://r:5000"])
    assert chosen.registry_mirrors == ("http://m:5000/",)
    assert chosen.insecure_registries == ("r:5000",)


def test_paths_become_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert made(tmp_path, ["--data-root", "d"]).data_root == f"{tmp_path}/d"
    assert "empty" in refusal(made, tmp_path, ["--data-root", ""])


def test_an_argument_that_is_no_option_is_refused(tmp_path):
    assert (
        refusal(made, tmp_path, ["extra"]) == "\"engine daemon\" accepts no argument(s).\nSee 'engine daemon --help'."
    )


def test_the_defaults_of_the_table_pass_their_own_checks():
    for option in (*every.OPTIONS, *advertised.FILE_ONLY):
        defaults = option.default if isinstance(option.default, tuple) else (option.default,)
        for default in defaults:
            if default and option.kind != "flag":
                assert option.check(str(default)) == str(default)


# `dockerd --help` of API 1.54, but for what the house builds in rooms of its own.
DOCKERDS = """
    add-runtime allow-direct-routing bip bip6 bridge bridge-accept-fwmark cdi-spec-dir cgroup-parent config-file
    containerd containerd-namespace containerd-plugins-namespace cpu-rt-period cpu-rt-runtime cri-containerd
    data-root debug default-address-pool default-cgroupns-mode default-gateway default-gateway-v6 default-ipc-mode
    default-network-opt default-runtime default-shm-size default-stop-timeout default-ulimit dns dns-opt dns-search
    exec-opt exec-root experimental feature firewall-backend fixed-cidr fixed-cidr-v6 group help host
    host-gateway-ip http-proxy https-proxy icc init init-path insecure-registry ip ip-forward ip-forward-no-drop
    ip-masq ip6tables iptables ipv6 label live-restore log-driver log-format log-level log-opt
    max-concurrent-downloads max-concurrent-uploads max-download-attempts metrics-addr mtu network-control-plane-mtu
    no-new-privileges no-proxy node-generic-resource nri-opts pidfile raw-logs registry-mirror rootless
    seccomp-profile selinux-enabled shutdown-timeout storage-driver storage-opt swarm-default-advertise-addr tls
    tlscacert tlscert tlskey tlsverify userland-proxy userland-proxy-path userns-remap validate version
"""


def test_every_option_of_dockerd_is_known():
    assert set(DOCKERDS.split()) <= {option.name for option in every.OPTIONS}


# What Debian's dockerd of 2022 has, and current dockerd refuses as unknown too.
GONE = {"allow-nondistributable-artifacts", "api-cors-header", "oom-score-adjust"}


def test_what_a_real_dockerd_shows_in_its_help_is_known_and_of_its_kind():
    program = shutil.which("dockerd") or LOCAL / "usr/sbin/dockerd"
    if not os.path.exists(program):
        pytest.skip("needs dockerd, which the set-up unpacks on Debian")
    text = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=60, check=True).stdout
    shown = dict(re.findall(r"^ +(?:-\w, )?--([a-z0-9-]+)(| [a-zA-Z-]+) {2,}", text, re.MULTILINE))
    assert len(shown) > 70, text
    known = {option.name: option for option in every.OPTIONS}
    assert set(shown) - set(known) <= GONE
    assert [name for name in shown.keys() & known if bool(shown[name]) is (known[name].kind == "flag")] == []


@pytest.mark.parametrize("option", every.OPTIONS, ids=lambda option: option.name)
def test_each_option_is_in_a_test_of_what_it_does(option):
    """On a command line, as a key of the file, or as a field of the settings, and not only in this file."""
    forms = [rf"--{option.name}(?![\w-])"]
    if option.key:
        key = option.key.rpartition(".")[2]
        forms += [f'"{key}"', rf"\b{key.replace('-', '_')}="]
    wanted = re.compile("|".join(forms))
    assert any(wanted.search(text) for text in _other_tests())


@functools.cache
def _other_tests():
    return [path.read_text() for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__).resolve()]


def test_every_option_can_be_given_on_the_command_line():
    values = {"host": "fd://", "log-level": "warn", "muxer": "c", "registry-mirror": "http://m/", "log-opt": "a=b"}
    values |= {"default-ulimit": "nofile=5", "exec-opt": "native.cgroupdriver=cgroupfs"}
    values |= {"bridge": "br0", "bip": "10.1.0.1/16", "bip6": "fd00::1/64", "mtu": "1400", "ip": "127.0.0.1"}
    values |= {"fixed-cidr": "10.1.1.0/24", "fixed-cidr-v6": "fd00::/80"}
    values |= {"default-gateway": "10.1.0.2", "default-gateway-v6": "fd00::2", "host-gateway-ip": "10.1.0.3"}
    values |= {"default-address-pool": "base=10.0.0.0/8,size=24", "default-network-opt": "bridge=a=b"}
    values |= {"dns": "9.9.9.9", "dns-search": "example.org", "dns-opt": "ndots:2"}
    values |= {
        "builder-entitlement": "none",
        "idle-exit": "60",
        "metrics-addr": "[::1]:9",
        "log-format": "json",
        "report-version": "29.0",
        "label": "a=b",
        "node-generic-resource": "a=b",
    }
    values |= {"storage-driver": "vfs", "storage-opt": "overlay2.override_kernel_check=1", "nri-opts": "enable=false"}
    values |= {"default-ipc-mode": "private", "default-cgroupns-mode": "host", "default-shm-size": "1g"}
    values |= {"add-runtime": "a=/b", "default-runtime": "runc"}
    values |= {"firewall-backend": "nftables", "bridge-accept-fwmark": "1"}
    values |= {each.name: "7" for each in every.OPTIONS if each.kind == "number" and each.name not in values}
    for option in every.OPTIONS:
        words = [f"--{option.name}"] if option.kind == "flag" else [f"--{option.name}", values.get(option.name, "/x")]
        assert list(parse(every.OPTIONS, words)[0]) == [option.name]
