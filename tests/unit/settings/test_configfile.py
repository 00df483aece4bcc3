"""The reader of daemon.json: what dockerd takes, refuses, and calls the same by two names."""

import pytest

from engine.errors import Invalid
from engine.settings import every


def made(tmp_path, data, *arguments):
    path = tmp_path / "daemon.json"
    path.write_bytes(data)
    return every.from_arguments(["--config-file", str(path), *arguments], {}, 0)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_mark_says_how_the_file_is_encoded(tmp_path, encoding):
    assert made(tmp_path, '{"labels": ["größe=1"]}'.encode(encoding)).labels == ("größe=1",)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\xff", "failed to decode configuration JSON at offset 0"),
        (b" " * (1 << 20) + b"{}", "it is larger than 1048576 bytes"),
        (b"[" * 100_000, "invalid JSON: "),
        (b'{"proxies": 1}', "proxies: expected an object, got 1"),
        (b'{"http-proxy": "http://p"}', "the following directives don't match any configuration option: http-proxy"),
        (b'{"proxies": {"x": "y"}}', "don't match any configuration option: proxies.x"),
        (b'{"shutdown-timeout": "1"}', 'shutdown-timeout: expected a whole number, got "1"'),
        (b'{"shutdown-timeout": true}', "shutdown-timeout: expected a whole number, got true"),
        (b'{"max-concurrent-uploads": -1}', "invalid max concurrent uploads: -1"),
        (
            b'{"host-gateway-ip": "10.0.0.1", "host-gateway-ips": ["10.0.0.1"]}',
            "host-gateway-ip and host-gateway-ips must not both be specified in the config file",
        ),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path, data, text):
    with pytest.raises(Invalid) as caught:
        made(tmp_path, data)
    assert text in str(caught.value)


def test_former_keys_are_those_of_today_or_forgotten(tmp_path):
    data = b'{"host-gateway-ip": "10.0.0.1", "deprecated-key-path": "x", "allow-nondistributable-artifacts": ["y"]}'
    assert made(tmp_path, data).host_gateway_ips == ("10.0.0.1",)


def test_a_conflict_shows_values_as_go_does_and_no_credentials(tmp_path):
    url = "https://user:secret@proxy.test/x"
    data = b'{"proxies": {"https-proxy": "%b"}, "log-opts": {"b": "2", "a": "1"}, "mtu": 1400}' % url.encode()
    with pytest.raises(Invalid) as caught:
        made(tmp_path, data, "--https-proxy", url, "--log-opt", "a=1", "--mtu", "9")
    assert str(caught.value).endswith(
        "the following directives are specified both as a flag and in the configuration file:"
        " https-proxy: (from flag: https://xxxxx:xxxxx@proxy.test/x, from file: https://xxxxx:xxxxx@proxy.test/x),"
        " log-opts: (from flag: [a=1], from file: map[a:1 b:2]), mtu: (from flag: 9, from file: 1400)"
    )
