"""Which CDI devices a command of a build gets."""

import json
from collections.abc import Collection
from pathlib import Path

import pytest

from engine.daemon.builder import cdigrants
from engine.daemon.dockerfile import devices
from engine.daemon.dockerfile.devices import Device
from engine.errors import EngineError, Forbidden, Invalid, NotFound

GRANTED = {"org.mobyproject.buildkit.device.autoallow": "true"}
OF_CLASS = {"org.mobyproject.buildkit.device.class": "fast"}


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A directory with the devices v/c=a and v/c=b, and v/free=a, which the administrator grants."""
    made = [{"name": "b", "annotations": OF_CLASS}, {"name": "a"}]
    (tmp_path / "1.json").write_text(json.dumps({"kind": "v/c", "devices": made}))
    document = {"kind": "v/free", "annotations": GRANTED, "devices": [{"name": "a", "annotations": OF_CLASS}]}
    (tmp_path / "2.json").write_text(json.dumps(document))
    return str(tmp_path)


@pytest.mark.parametrize(
    ("lines", "allowed", "found"),
    [
        (["v/c=b"], ["device"], ["v/c=b"]),
        (["v/c=b"], None, ["v/c=b"]),
        (["v/c"], ["device=v/c"], ["v/c=a"]),
        (["v/c=*", "v/c=a"], ["device=v/c=*"], ["v/c=a", "v/c=b"]),
        (["fast"], ["device=v/c=b"], ["v/c=b", "v/free=a"]),
        (["name=v/free=a,required"], [], ["v/free=a"]),
        (["mine"], ["device=v/c=b,alias=mine"], ["v/c=b"]),
        (["mine", "v/free"], ["device=v/c=b,alias=mine"], ["v/c=b", "v/free=a"]),
        (["absent"], ["device=v/c=b"], []),
        (["absent"], [], []),
    ],
)
def test_what_is_granted_is_given(
    place: str, lines: list[str], allowed: Collection[str] | None, found: list[str]
) -> None:
    assert cdigrants.given([place], [devices.read(line) for line in lines], allowed) == found


@pytest.mark.parametrize(
    ("lines", "allowed", "kind", "words"),
    [
        (["v/c=a"], [], Forbidden, "device v/c=a is requested by the build but not allowed"),
        (["v/c=*"], ["network.host"], Forbidden, "devices v/c=a, v/c=b are requested by the build but not allowed"),
        (["v/c=a"], ["device=v/c=b"], Forbidden, "device v/c=a is requested by the build but not allowed"),
        (["v/c=z,required"], ["device"], NotFound, 'required device "v/c=z" is not registered'),
        (["v/c=a"], ["device=v/c=z"], NotFound, 'required device "v/c=z" is not registered'),
        (["mine"], ["device=v/c=z,alias=mine"], NotFound, 'required device "v/c=z" is not registered'),
    ],
)
def test_what_is_not_granted_is_refused(
    place: str, lines: list[str], allowed: list[str], kind: type[EngineError], words: str
) -> None:
    with pytest.raises(kind) as caught:
        cdigrants.given([place], [devices.read(line) for line in lines], allowed)
    assert str(caught.value) == words


@pytest.mark.parametrize(
    ("line", "device"),
    [
        ("v/c=a", Device("v/c=a")),
        ("v/c,required=true", Device("v/c", True)),
        ("NAME=x,required=0", Device("x")),
        ("required,fast", Device("fast", True)),
    ],
)
def test_the_words_of_a_command(line: str, device: Device) -> None:
    assert devices.read(line) == device


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a,name=b", "device name already set to a"),
        ("a,b", "invalid field 'b' must be a key=value pair"),
        ("a,mode=1", "unexpected key 'mode' in 'mode=1'"),
        ("a,required=x", 'invalid value for required: strconv.ParseBool: parsing "x": invalid syntax'),
        ("", "failed to parse csv devices: EOF"),
    ],
)
def test_wrong_words_of_a_command(line: str, words: str) -> None:
    with pytest.raises(Invalid) as caught:
        devices.read(line)
    assert str(caught.value) == words
