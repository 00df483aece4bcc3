"""engine.daemon.api.body: JSON bodies become values, or errors in the words of Go's decoder."""

import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.daemon.api.body import DEPTH_LIMIT, decode, decode_body, load, parse_port
from engine.daemon.api.schemas import CONTAINER_CREATE
from engine.daemon.runtime.worker import STACK_SIZE
from engine.errors import Invalid

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["Cmd", "Image", "HostConfig", "memory", "Labels", "PortBindings", "80/tcp"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)

# (body, what the error says after `invalid JSON: `); the first rows are in the transcript: 25, 26, 49, 91
MISMATCHES = [
    ({"Cmd": "echo"}, "json: cannot unmarshal string into Go struct field CreateRequest.Config.Cmd of type []string"),
    ({"Cmd": [1, 2]}, "json: cannot unmarshal number into Go struct field CreateRequest.Config.Cmd of type string"),
    ({"HostConfig": {"PortBindings": {"99999/tcp": []}}}, "invalid port '99999': value out of range"),
    ({"ExposedPorts": {"x/tcp": {}}}, "invalid port 'x': invalid syntax"),
    ([], "json: cannot unmarshal array into Go value of type container.CreateRequest"),
    (
        {"HostConfig": {"Memory": 1.5}},
        "json: cannot unmarshal number 1.5 into Go struct field HostConfig.HostConfig.Resources.Memory of type int64",
    ),
    (
        {"HostConfig": {"BlkioWeight": 65536}},
        "json: cannot unmarshal number 65536 into Go struct field "
        "HostConfig.HostConfig.Resources.BlkioWeight of type uint16",
    ),
    (
        {"HostConfig": {"Memory": 10**400}},
        f"json: cannot unmarshal number {10**400} into Go struct field "
        "HostConfig.HostConfig.Resources.Memory of type int64",
    ),
    (
        {"HostConfig": {"RestartPolicy": {"Name": True}}},
        "json: cannot unmarshal bool into Go struct field "
        "RestartPolicy.HostConfig.RestartPolicy.Name of type container.RestartPolicyMode",
    ),
    (
        {"Tty": 1, "Cmd": "later"},
        "json: cannot unmarshal number into Go struct field CreateRequest.Config.Tty of type bool",
    ),
    (
        {"Volumes": {"/a": "b"}},
        "json: cannot unmarshal string into Go struct field CreateRequest.Config.Volumes of type struct {}",
    ),
    ({"HostConfig": {"Dns": ["1.1.1.1", "::1", "x"]}}, 'ParseAddr("x"): unable to parse IP'),
    (
        {"HostConfig": {"Ulimits": {"Name": "nofile"}}},
        "json: cannot unmarshal object into Go struct field "
        "HostConfig.HostConfig.Resources.Ulimits of type []*units.Ulimit",
    ),
    (
        {"HostConfig": {"ConsoleSize": 3}},
        "json: cannot unmarshal number into Go struct field HostConfig.HostConfig.ConsoleSize of type [2]uint",
    ),
]

# (body, content type, text): transcript 21 to 24, and what Go says of the others
REFUSED = [
    (
        b"{not json",
        "application/json",
        "invalid JSON: invalid character 'n' looking for beginning of object key string",
    ),
    (b"", "application/json", "invalid JSON: EOF"),
    (b"", "", "invalid JSON: EOF"),
    (b'{"Image":', "application/json", "invalid JSON: unexpected EOF"),
    (b'{"Image":NaN}', "application/json", "invalid JSON: invalid character 'N' looking for beginning of value"),
    (
        b'\xef\xbb\xbf{"Image":""}',
        "application/json",
        "invalid JSON: invalid character 'ï' looking for beginning of value",
    ),
    (b'{"Image":"busybox"}{"x":1}', "application/json", "unexpected content after JSON"),
    (
        b"Image=busybox",
        "application/x-www-form-urlencoded",
        "unsupported Content-Type header (application/x-www-form-urlencoded): must be 'application/json'",
    ),
    (b"{}", "", "malformed Content-Type header (): mime: no media type"),
    (b"{}", "nonsense", "malformed Content-Type header (nonsense)"),
]


@pytest.mark.parametrize(("body", "text"), MISMATCHES)
def test_a_wrong_type_is_told_as_go_tells_it(body, text):
    with pytest.raises(Invalid) as caught:
        decode(json.dumps(body).encode(), CONTAINER_CREATE)
    assert str(caught.value) == f"invalid JSON: {text}"


@pytest.mark.parametrize(("body", "content_type", "text"), REFUSED)
def test_what_is_no_json_is_told_as_docker_tells_it(body, content_type, text):
    with pytest.raises(Invalid) as caught:
        decode_body(body, content_type, CONTAINER_CREATE, required=True)
    assert str(caught.value) == text


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON; charset=utf-8", " application/json "])
def test_a_content_type_may_have_parameters_and_any_case(content_type):
    assert decode_body(b'{"Image":"a"}\n ', content_type, CONTAINER_CREATE) == {"Image": "a"}


def test_an_empty_body_is_an_empty_object_where_it_is_allowed():
    assert decode_body(b"", "", CONTAINER_CREATE) == {}
    assert decode_body(b"", "application/json", CONTAINER_CREATE) == {}


def test_names_match_in_any_case_and_unknown_ones_are_passed_over():
    body = {"image": "a", "CMD": ["b"], "hostconfig": {"MEMORY": 1, "New": {}}, "new": [1], "Tty": None}
    assert decode(json.dumps(body).encode(), CONTAINER_CREATE) == {
        "Image": "a",
        "Cmd": ["b"],
        "HostConfig": {"Memory": 1},
    }


def test_null_inside_a_list_or_map_is_gos_empty_value():
    body = {"Env": ["a", None], "Labels": {"a": None}, "HostConfig": {"Mounts": [None], "Ulimits": [None]}}
    assert decode(json.dumps(body).encode(), CONTAINER_CREATE) == {
        "Env": ["a", ""],
        "Labels": {"a": ""},
        "HostConfig": {"Mounts": [{}], "Ulimits": [None]},
    }


@pytest.mark.parametrize(
    ("name", "asked", "written"),
    [
        (
            "Mounts",
            {"Type": "tmpfs", "Source": "", "ReadOnly": False, "TmpfsOptions": {"Mode": 0, "Options": []}},
            {"Type": "tmpfs", "TmpfsOptions": {}},
        ),
        (
            "Mounts",
            {"volumeoptions": {"NoCopy": False, "Labels": {}, "DriverConfig": {"Name": ""}}, "Type": "volume"},
            {"Type": "volume", "VolumeOptions": {"DriverConfig": {}}},
        ),
        ("Mounts", {"BindOptions": {"NonRecursive": False}, "Consistency": ""}, {"BindOptions": {}}),
        ("Mounts", {"BindOptions": None, "ImageOptions": {"Subpath": ""}}, {"ImageOptions": {}}),
        (
            "DeviceRequests",
            {"Count": -1, "Driver": None},
            {"Driver": "", "Count": -1, "DeviceIDs": None, "Capabilities": None, "Options": None},
        ),
        (
            "DeviceRequests",
            {"DeviceIDs": [], "Options": {}},
            {"Driver": "", "Count": 0, "DeviceIDs": [], "Capabilities": None, "Options": {}},
        ),
        ("Devices", {"PathOnHost": "/d"}, {"PathOnHost": "/d", "PathInContainer": "", "CgroupPermissions": ""}),
        ("Devices", None, {"PathOnHost": "", "PathInContainer": "", "CgroupPermissions": ""}),
        ("BlkioWeightDevice", {"Path": "/d"}, {"Path": "/d", "Weight": 0}),
        ("BlkioDeviceReadBps", {}, {"Path": "", "Rate": 0}),
        ("BlkioDeviceReadBps", None, None),
    ],
)  # fmt: skip
def test_an_entry_has_the_keys_that_go_writes(name: str, asked: object, written: object) -> None:
    """Inspect shows what was decoded, and dockerd shows what Go writes of its structs."""
    decoded = decode(json.dumps({"HostConfig": {name: [asked]}}).encode(), CONTAINER_CREATE)
    assert decoded == {"HostConfig": {name: [written]}}


def test_the_keys_of_a_health_check_and_of_an_address_are_those_that_go_writes() -> None:
    networks = {
        "EndpointsConfig": {"net": {"IPAMConfig": {"IPv4Address": "", "LinkLocalIPs": [], "IPv6Address": "2001::1"}}}
    }
    body = {"Healthcheck": {"Retries": 0, "Test": [], "Interval": 10**9}, "NetworkingConfig": networks}
    decoded = decode(json.dumps(body).encode(), CONTAINER_CREATE)
    assert decoded["Healthcheck"] == {"Interval": 10**9}
    assert decoded["NetworkingConfig"]["EndpointsConfig"] == {"net": {"IPAMConfig": {"IPv6Address": "2001::1"}}}


def test_an_array_of_fixed_length_is_filled_up_and_cut():
    for sent, kept in (([1], [1, 0]), ([1, 2, 3], [1, 2])):
        body = {"HostConfig": {"ConsoleSize": sent}}
        assert decode(json.dumps(body).encode(), CONTAINER_CREATE) == {"HostConfig": {"ConsoleSize": kept}}


def test_half_of_a_surrogate_pair_becomes_the_replacement_character():
    decoded = decode(rb'{"Image":"\ud800","Cmd":["\ud83d\ude00","x\udc00y"]}', CONTAINER_CREATE)
    assert decoded == {"Image": "\ufffd", "Cmd": ["😀", "x\ufffdy"]}


def test_bytes_that_are_no_utf_8_become_the_replacement_character():
    assert decode(b'{"Image":"\xff"}', CONTAINER_CREATE) == {"Image": "\ufffd"}


@given(JSON)
def test_any_json_is_a_value_or_invalid(value):
    try:
        decoded = decode(json.dumps(value).encode(), CONTAINER_CREATE)
    except Invalid:
        return
    assert isinstance(decoded, dict)


@given(st.binary(max_size=30) | st.text('{}[]",:0123456789.eE+-\\utrfalsn x', max_size=30).map(str.encode))
def test_any_bytes_are_a_value_or_invalid(data):
    try:
        value, _ = load(data)
    except Invalid as error:
        assert str(error).startswith("invalid JSON: ")
        return
    # What is accepted must be storable and sendable.
    json.dumps(value, ensure_ascii=False).encode()


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_nesting_is_bounded_far_inside_what_a_threads_stack_holds(opening, closing):
    outcomes = {}

    def run():
        for depth in (DEPTH_LIMIT, DEPTH_LIMIT + 1, 1_000_000):
            try:
                outcomes[depth] = load((opening * depth + "1" + closing * depth).encode())[1]
            except Invalid as error:
                outcomes[depth] = str(error)

    before = threading.stack_size(STACK_SIZE // 2)
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert outcomes == {
        DEPTH_LIMIT: "",
        DEPTH_LIMIT + 1: "invalid JSON: exceeded max depth",
        1_000_000: "invalid JSON: exceeded max depth",
    }


@pytest.mark.parametrize("text", ['"\\', '"\\"', '"', '"\\\\', "\\"])
def test_texts_without_an_end_are_searched_once(text):
    # A search that begins anew at each quote takes hours, and no other thread runs meanwhile.
    with pytest.raises(Invalid):
        load(b"[" * (DEPTH_LIMIT + 1) + text.encode() * 400_001)


def test_brackets_in_texts_are_no_nesting():
    assert decode(json.dumps({"Image": '["' * 1000}).encode(), CONTAINER_CREATE) == {"Image": '["' * 1000}


@pytest.mark.parametrize(
    ("text", "port"),
    [("80/tcp", "80/tcp"), ("80", "80/tcp"), ("080/UDP", "80/udp"), ("0/sctp", "0/sctp"), ("+80/tcp", "80/tcp")],
)
def test_a_port_is_brought_into_its_full_form(text, port):
    assert parse_port(text) == port


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "invalid port: value is empty"),
        ("/tcp", "invalid port '': value is empty"),
        ("80-90/tcp", "invalid port '80-90': invalid syntax"),
        ("-1/tcp", "invalid port '-1': value out of range"),
        ("65536/tcp", "invalid port '65536': value out of range"),
        ("9" * 5000, f"invalid port '{'9' * 5000}': value out of range"),
        ("²/tcp", "invalid port '²': invalid syntax"),
    ],
)
def test_a_bad_port_is_refused(text, error):
    with pytest.raises(Invalid) as caught:
        parse_port(text)
    assert str(caught.value) == error
