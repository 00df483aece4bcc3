"""CDI files: which devices they describe, and what those change in a container."""

import json
from pathlib import Path

import pytest

from engine.daemon.containers.security import cdispecs
from engine.daemon.containers.security.cdispecs import Edits, Node
from engine.errors import SystemFailure
from engine.sandbox.spec import Mount

KIND = "vendor.com/class"


def spec(path: Path, *devices: dict, kind: str = KIND, **more: object) -> None:
    """Write a file with these devices."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"cdiVersion": "0.6.0", "kind": kind, "devices": [*devices], **more}))


def device(name: str, **edits: object) -> dict:
    """A device of a file."""
    return {"name": name, "containerEdits": edits}


def refused(directory: Path, *names: str) -> str:
    """What is said of these devices."""
    with pytest.raises(SystemFailure) as caught:
        cdispecs.injected([str(directory)], names)
    return str(caught.value)


def test_what_is_common_comes_once_and_before_each_ones_own(tmp_path: Path) -> None:
    spec(
        tmp_path / "a.json",
        device("one", env=["A=1"], additionalGids=[7, 0]),
        device("two", env=["B=2"], additionalGids=[7, 8]),
        containerEdits={"env": ["ALL=0"]},
    )
    found = cdispecs.injected([str(tmp_path)], [f"{KIND}=two", f"{KIND}=one", f"{KIND}=two"])
    assert found == Edits(env=("ALL=0", "B=2", "A=1"), groups=("7", "8"))


def test_nodes_and_mounts_are_what_the_file_says(tmp_path: Path) -> None:
    nodes = [
        {"path": "/dev/x", "hostPath": "/dev/y"},
        {"path": "/dev/z", "type": "u", "major": 1, "minor": 5, "uid": 3},
    ]
    mounts = [
        {"hostPath": "/lib/x", "containerPath": "/lib/y", "options": ["ro", "bind", "rslave", "rw"]},
        {"containerPath": "/t", "type": "tmpfs", "options": ["nosuid", "size=1k"]},
    ]
    spec(tmp_path / "a.json", device("one", deviceNodes=nodes, mounts=mounts))
    found = cdispecs.injected([str(tmp_path)], [f"{KIND}=one"])
    assert found.nodes == (
        Node("/dev/x", "/dev/y", "", None, None, None, "rwm", None, None),
        Node("/dev/z", "/dev/z", "c", 1, 5, None, "rwm", 3, None),
    )
    assert found.mounts == (
        Mount("bind", "/lib/x", "/lib/y", ("ro", "bind"), propagation="rslave", asked=True),
        Mount("tmpfs", "tmpfs", "/t", ("nosuid",), "size=1k", asked=True),
    )


def test_gpus_are_the_devices_of_the_first_kind_that_is_there(tmp_path: Path) -> None:
    asked = {"Count": -1, "Capabilities": [["gpu"]]}
    kinds = ("nvidia.com/gpu", "amd.com/gpu")
    assert cdispecs.gpus([str(tmp_path)], asked, kinds) is None
    spec(tmp_path / "b.json", device("all"), kind="amd.com/gpu")
    assert cdispecs.gpus([str(tmp_path)], asked, kinds) == ["amd.com/gpu=all"]
    assert cdispecs.gpus([str(tmp_path)], asked, kinds[:1]) is None
    spec(tmp_path / "a.json", device("0"), device("1"), device("all"), kind="nvidia.com/gpu")
    told = [
        cdispecs.gpus([str(tmp_path)], each, kinds) for each in (asked, {"Count": 2}, {"DeviceIDs": ["1", "a.b/c=d"]})
    ]
    gpu = "nvidia.com/gpu="
    assert told == [[f"{gpu}all"], [f"{gpu}0", f"{gpu}1"], [f"{gpu}1", "a.b/c=d"]]
    with pytest.raises(SystemFailure, match="cannot set both Count and DeviceIDs on device request"):
        cdispecs.gpus([str(tmp_path)], {"Count": 1, "DeviceIDs": ["0"]}, kinds)


def test_hooks_are_kept_for_who_runs_them(tmp_path: Path) -> None:
    hook = {"hookName": "createContainer", "path": "/h", "args": ["h", "x"], "env": ["A=b"], "timeout": 5}
    spec(tmp_path / "a.json", device("one", hooks=[hook]))
    (found,) = cdispecs.injected([str(tmp_path)], [f"{KIND}=one"]).hooks
    assert found == cdispecs.Hook("createContainer", "/h", ("h", "x"), ("A=b",), 5)


def test_yaml_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        f"---\nkind: {KIND}\ndevices:\n- name: one\n  containerEdits:\n    env:\n    - A=b c\n"
    )
    assert cdispecs.injected([str(tmp_path)], [f"{KIND}=one"]).env == ("A=b c",)


def test_a_later_directory_counts_more_and_two_files_of_one_describe_nothing(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    spec(first / "a.json", device("one", env=["A=1"]), device("two", env=["A=2"]))
    spec(second / "a.json", device("one", env=["A=3"]))
    directories = [str(first), str(second), str(tmp_path / "none")]
    assert cdispecs.injected(directories, [f"{KIND}=one"]).env == ("A=3",)
    spec(second / "b.json", device("one", env=["A=4"]))
    devices, warnings = cdispecs.found(directories)
    assert list(devices) == [f"{KIND}=two"]
    assert f"{KIND}=one is described in {second}/a.json too" in warnings[0]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", "{"),
        ("a.json", "[]"),
        ("a.json", "[" * 100_000),
        ("a.json", '{"kind": "x", "devices": []}'),
        ("a.json", '{"kind": "a.b/c"}'),
        ("a.json", '{"kind": "a.b/c", "devices": [{"name": "-x"}]}'),
        ("a.json", " " * (1 << 20) + "{}"),
        ("a.yaml", "kind: &x a.b/c"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_of_and_hides_no_other(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    spec(tmp_path / "z.json", device("one"))
    devices, (warning,) = cdispecs.found([str(tmp_path)])
    assert list(devices) == [f"{KIND}=one"]
    assert warning.startswith(f"CDI: Error associated with spec file {tmp_path}/{name}: ")


@pytest.mark.parametrize(
    ("edits", "text"),
    [
        ({"hooks": [{"hookName": "poststop", "path": "/x"}]}, "it has a hook 'poststop', which this engine has no"),
        ({"hooks": [{"hookName": "prestart"}]}, "path is not an absolute path"),
        ({"hooks": [{"hookName": "prestart", "path": "/x", "args": [1]}]}, "are not lists of texts"),
        ({"hooks": [{"hookName": "prestart", "path": "/x", "timeout": -1}]}, "invalid timeout"),
        ({"intelRdt": {"closID": "x"}}, "divides no caches"),
        ({"netDevices": [{}]}, "moves no network devices"),
        ({"weather": 1}, "containerEdits has the unknown weather"),
        ({"env": ["A"]}, "env is not a list of NAME=value"),
        ({"env": "A=b"}, "env is not a list"),
        ({"additionalGids": ["7"]}, "additionalGids is not a list of group ids"),
        ({"deviceNodes": [{"path": "x"}]}, "path is not an absolute path: 'x'"),
        ({"deviceNodes": [{"path": "/x", "type": "p"}]}, "the type 'p', which is no device's"),
        ({"deviceNodes": [{"path": "/x", "major": -1}]}, "invalid major"),
        ({"deviceNodes": [{"path": "/x", "permissions": "rwx"}]}, "invalid permissions"),
        ({"mounts": [{"containerPath": "/x"}]}, "hostPath is not an absolute path"),
        ({"mounts": [{"containerPath": "/x", "hostPath": "/y", "options": ["z"]}]}, "unknown options z"),
        ({"mounts": [{"containerPath": "/x", "type": "overlay"}]}, "there are bind and tmpfs"),
    ],
)
def test_what_cannot_be_done_is_refused_when_the_device_is_asked_for(tmp_path: Path, edits: dict, text: str) -> None:
    spec(tmp_path / "a.json", device("one", **edits))
    said = refused(tmp_path, f"{KIND}=one")
    assert said.startswith(f"CDI device injection failed: {KIND}=one of {tmp_path}/a.json: ") and text in said


def test_a_device_that_no_file_describes_is_refused_in_dockers_words(tmp_path: Path) -> None:
    assert refused(tmp_path, "a.b/c=d", "x") == "CDI device injection failed: unresolvable CDI devices a.b/c=d, x"
