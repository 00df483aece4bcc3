"""`-p`, `-v`, `--mount`, env files and detach keys: what they mean, and docker's words where they are wrong."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.client.container import envfiles, gpus, mountflags, portflags
from engine.client.container.creating import creation
from engine.client.terminal import DETACH_KEYS, detach_keys
from engine.errors import Invalid


def one(port, host="", outer=""):
    return {port: {}}, {port: [{"HostIp": host, "HostPort": outer}]}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("80", one("80/tcp")),
        ("8080:80", one("80/tcp", outer="8080")),
        ("53:53/UDP", one("53/udp", outer="53")),
        ("1.2.3.4:8080:80", one("80/tcp", "1.2.3.4", "8080")),
        ("1.2.3.4::80", one("80/tcp", "1.2.3.4")),
        ("[::1]:8080:80", one("80/tcp", "::1", "8080")),
        ("8000-8010:80", one("80/tcp", outer="8000-8010")),
        ("target=80,published=8080,protocol=udp", one("80/udp", outer="8080")),
    ],
)
def test_a_port_is_published(text, found):
    assert portflags.published([text]) == found


def test_a_range_is_a_port_each_and_one_port_may_be_published_twice():
    exposed, bindings = portflags.published(["8000-8001:90-91", "7000:90"])
    assert sorted(exposed) == ["90/tcp", "91/tcp"]
    assert [each["HostPort"] for each in bindings["90/tcp"]] == ["8000", "7000"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no port specified: <empty>"),
        ("80:", "no port specified: 80:<empty>"),
        ("x", "invalid containerPort: x"),
        ("99999", "invalid containerPort: 99999"),
        ("80-70", "invalid containerPort: 80-70"),
        ("-1:80", "invalid hostPort: -1"),
        ("1:2:3:4", "invalid IP address: 1:2"),
        ("1.2.3:80:80", "invalid IP address: 1.2.3"),
        ("80/foo", "invalid proto: foo"),
        ("80-82:80-81", "invalid ranges specified for container and host Ports: 80-81 and 80-82"),
        ("nope=1", "invalid publish opts format"),
    ],
)
def test_a_wrong_port_is_refused(text, words):
    with pytest.raises(Invalid) as caught:
        portflags.published([text])
    assert words in str(caught.value)


@given(st.text(alphabet="0123456789:-/.[]=,tcpudx", max_size=24))
def test_no_port_does_anything_else_than_be_read_or_refused(text):
    try:
        portflags.published([text])
    except Invalid:
        return


def test_a_relative_source_begins_here():
    here = os.getcwd()
    assert mountflags.volumes(["./a:/b", "name:/c", "/d"]) == ([f"{here}/a:/b", "name:/c"], {"/d": {}})


@pytest.mark.parametrize(
    ("text", "mount"),
    [
        ("target=/a", {"Type": "volume", "Target": "/a"}),
        ("type=bind,src=/a,dst=/b,ro", {"Type": "bind", "Source": "/a", "Target": "/b", "ReadOnly": True}),
        ('type=bind,"source=/a,b",target=/c,readonly=0', {"Source": "/a,b", "ReadOnly": False}),
        ("type=bind,source=/a,target=/b,bind-propagation=rslave", {"BindOptions": {"Propagation": "rslave"}}),
        ("type=tmpfs,dst=/t,tmpfs-size=1m,tmpfs-mode=1777", {"TmpfsOptions": {"SizeBytes": 1 << 20, "Mode": 0o1777}}),
        (
            "src=v,dst=/v,volume-nocopy,volume-label=a=b,volume-opt=type=tmpfs,volume-opt=o=x",
            {
                "VolumeOptions": {
                    "NoCopy": True,
                    "Labels": {"a": "b"},
                    "DriverConfig": {"Options": {"type": "tmpfs", "o": "x"}},
                }
            },
        ),
    ],
)
def test_a_mount_is_read(text, mount):
    assert mount.items() <= mountflags.mount(text).items()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "EOF"),
        ("type=bind", "target is required"),
        ("target", "invalid field 'target' must be a key=value pair"),
        ("foo=1,target=/a", "unexpected key 'foo' in 'foo=1'"),
        ("type=bind,source=/a,target=/b,readonly=maybe", "invalid value for readonly: maybe"),
        ("type=bind,src=/a,dst=/b,volume-nocopy", "cannot mix 'volume-*' options with mount type 'bind'"),
        ("type=tmpfs,dst=/b,tmpfs-size=x", "invalid value for tmpfs-size: x"),
        ("type=tmpfs,dst=/b,tmpfs-mode=9", "invalid value for tmpfs-mode: 9"),
    ],
)
def test_a_wrong_mount_is_refused(text, words):
    with pytest.raises(Invalid) as caught:
        mountflags.mount(text)
    assert words in str(caught.value)


def test_a_file_of_variables_is_read_as_by_docker(tmp_path):
    path = tmp_path / "env"
    path.write_bytes(b"\xef\xbb\xbfA=1 \r\n# comment\n\n  B = x=y\nHERE\nGONE\nC=\n")
    path.write_bytes(path.read_bytes().replace(b"  B = x=y", b"  B= x=y"))
    found = envfiles.settings([str(path)], ["D", "E=5"], {"HERE": "h", "D": "d"})
    assert found == ["A=1 ", "B= x=y", "HERE=h", "C=", "D=d", "E=5"]
    assert envfiles.labels([str(path)], ["A=2"])["A"] == "2"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"A B=c\n", "variable 'A B' contains whitespaces"),
        (b"=c\n", "no variable name on line '=c'"),
        (b"A=1\nB=\xff\n", "invalid utf8 bytes at line 2"),
    ],
)
def test_a_wrong_file_of_variables_is_refused(tmp_path, data, words):
    path = tmp_path / "env"
    path.write_bytes(data)
    with pytest.raises(Invalid, match="invalid env file") as caught:
        envfiles.read(str(path))
    assert words in str(caught.value)


def test_a_missing_file_of_variables_is_named():
    with pytest.raises(Invalid, match="open /nope: no such file or directory"):
        envfiles.read("/nope")


@given(st.binary(max_size=80))
def test_no_file_does_anything_else_than_be_read_or_refused(data):
    try:
        found = list(envfiles.lines(data))
    except Invalid:
        return
    assert all(line and not line.startswith(("#", "=")) for line in found)


@pytest.mark.parametrize(
    ("text", "keys"),
    [("ctrl-p,ctrl-q", DETACH_KEYS), ("", b""), ("a,b", b"ab"), ("ctrl-],x", b"\x1dx"), ("ctrl-@", b"\0")],
)
def test_detach_keys_are_bytes(text, keys):
    assert detach_keys(text) == keys


@pytest.mark.parametrize("text", ["ctrl-7", "ab", "ctrl-", ",", "é"])
def test_wrong_detach_keys_are_refused(text):
    with pytest.raises(Invalid, match="detach keys"):
        detach_keys(text)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("all", {"Count": -1}),
        ("2", {"Count": 2}),
        ("device=0", {"DeviceIDs": ["0"]}),
        ('"device=0,1",driver=nvidia', {"DeviceIDs": ["0", "1"], "Driver": "nvidia"}),
        ('"capabilities=compute,utility"', {"Count": 1, "Capabilities": [["compute", "utility", "gpu"]]}),
        ("count=1,options=a=b", {"Count": 1, "Options": {"a": "b"}}),
    ],
)
def test_gpus_are_asked_for_as_docker_does(text, made):
    usual = {"Driver": "", "Count": 0, "DeviceIDs": None, "Capabilities": [["gpu"]], "Options": {}}
    assert gpus.request(text) == usual | made


@pytest.mark.parametrize("text", ["x", "count=y", "count=1,count=2", "color=red"])
def test_what_are_no_gpus_is_refused(text):
    with pytest.raises(Invalid):
        gpus.request(text)


@pytest.mark.parametrize(
    ("options", "streams"),
    [
        ({}, (False, True, True)),
        ({"interactive": True}, (True, True, True)),
        ({"attach": ("stdout",)}, (False, True, False)),
        ({"attach": ("stdin", "stderr"), "interactive": True}, (True, False, True)),
        ({"attach": ("stdout",), "interactive": True}, (False, True, False)),
    ],
)
def test_streams_are_attached_that_are_named(options, streams):
    body = creation("busybox", [], options, {}, attached=True)
    assert tuple(body[f"Attach{name}"] for name in ("Stdin", "Stdout", "Stderr")) == streams


def test_limits_of_devices_and_addresses_reach_the_request():
    options = {
        "blkio-weight-device": ("/dev/a:200",),
        "device-read-bps": ("/dev/a:1m",),
        "device-write-iops": ("/dev/a:5",),
        "mac-address": "92:d0:c6:0a:29:33",
        "link-local-ip": ("169.254.1.1",),
    }
    body = creation("busybox", [], options, {}, attached=True)
    host = body["HostConfig"]
    assert host["BlkioWeightDevice"] == [{"Path": "/dev/a", "Weight": 200}]
    assert host["BlkioDeviceReadBps"] == [{"Path": "/dev/a", "Rate": 1 << 20}]
    assert host["BlkioDeviceWriteIOps"] == [{"Path": "/dev/a", "Rate": 5}]
    endpoint = {"MacAddress": "92:d0:c6:0a:29:33", "IPAMConfig": {"LinkLocalIPs": ["169.254.1.1"]}}
    assert body["NetworkingConfig"]["EndpointsConfig"] == {"default": endpoint}
