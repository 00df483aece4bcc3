"""The plain part of YAML: what CDI files are written in, and what is refused in words."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import Invalid
from engine.protocols.plainyaml import load

NVIDIA = """---
cdiVersion: 0.5.0
containerEdits:
  deviceNodes:
  - path: /dev/nvidiactl
  - path: /dev/nvidia-uvm   # shared
    fileMode: 0666
  env:
  - NVIDIA_VISIBLE_DEVICES=void
  mounts:
  - containerPath: /usr/lib/libcuda.so.1
    hostPath: "/usr/lib/libcuda.so.1"
    options: [ro, nosuid, 'bind']
devices:
- containerEdits:
    deviceNodes:
    - major: 195
      path: /dev/nvidia0
  name: "0"
-
  name: all
  containerEdits: {env: ["A=b c", 'D=it''s'], additionalGids: [5, 0x10]}
kind: nvidia.com/gpu
"""


def test_a_file_as_programs_write_it() -> None:
    assert load(NVIDIA) == {
        "cdiVersion": "0.5.0",
        "containerEdits": {
            "deviceNodes": [{"path": "/dev/nvidiactl"}, {"path": "/dev/nvidia-uvm", "fileMode": 0o666}],
            "env": ["NVIDIA_VISIBLE_DEVICES=void"],
            "mounts": [
                {
                    "containerPath": "/usr/lib/libcuda.so.1",
                    "hostPath": "/usr/lib/libcuda.so.1",
                    "options": ["ro", "nosuid", "bind"],
                }
            ],
        },
        "devices": [
            {"containerEdits": {"deviceNodes": [{"major": 195, "path": "/dev/nvidia0"}]}, "name": "0"},
            {"name": "all", "containerEdits": {"env": ["A=b c", "D=it's"], "additionalGids": [5, 16]}},
        ],
        "kind": "nvidia.com/gpu",
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("# nothing\n", None),
        ("a:", {"a": None}),
        (
            "a: ~\nb: true\nc: -7\nd: 1.5\ne: 0o17\nf: 08",
            {"a": None, "b": True, "c": -7, "d": "1.5", "e": 15, "f": "08"},
        ),
        ("a: x # y\nb: x#y\nc: '# z'", {"a": "x", "b": "x#y", "c": "# z"}),
        ("a: http://x:1/y", {"a": "http://x:1/y"}),
        ('a: "b\\n\\"c\\""', {"a": 'b\n"c"'}),
        ("- - 1\n  - 2\n- 3", [[1, 2], 3]),
        ("a: []\nb: {}\nc: [[], {d: [e]}]", {"a": [], "b": {}, "c": [[], {"d": ["e"]}]}),
        ("'a b': 1\n\"c: d\": 2", {"a b": 1, "c: d": 2}),
    ],
)
def test_values(text: str, value: object) -> None:
    assert load(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "a: &b c",
        "a: *b",
        "a: !!str b",
        "a: |\n  b",
        "a: b\n---\nc: d",
        "\ta: b",
        "a: b\na: c",
        "a: b\n   c: d",
        "a: [b",
        "a: {b}",
        "a: [b] c",
        'a: "b',
        "a: 'b",
        'a: "\\q"',
        "a: [b, , c]",
        "- " * 100 + "a",
        "a: " + "[" * 100 + "]" * 100,
        "x" * ((1 << 20) + 1),
    ],
)
def test_what_is_not_plain_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match=r"line \d+: |it is larger"):
        load(text)


@given(st.text(alphabet="ab:- \n[]{},\"'#&0", max_size=60))
def test_no_text_brings_another_error(text: str) -> None:
    try:
        json.dumps(load(text))
    except Invalid:
        pass


WORDS = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1)
PLAIN = st.recursive(
    st.integers(-(10**6), 10**6) | st.booleans() | st.none() | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text("abc", min_size=1), PLAIN, max_size=4))
def test_json_on_one_line_is_read_as_json(value: dict) -> None:
    """JSON with blanks behind its commas and colons is a flow mapping."""
    assert load(json.dumps(value)) == value
