"""What a client asks of `dockerfile.v0`, option by option."""

import pytest

from engine.daemon.builder.namedcontexts import NamedContext
from engine.daemon.buildkit import exporting, wishes
from engine.daemon.buildkit.messages.control import SolveRequest
from engine.errors import Invalid, NotBuilt
from engine.protocols import protobuf


def test_clients_that_know_one_exporter() -> None:
    """Those before BuildKit 0.13 name it elsewhere."""
    asked = protobuf.decode(SolveRequest, b"")
    asked |= {"ExporterDeprecated": "moby", "ExporterAttrsDeprecated": {"name": "a:b"}}
    assert exporting.asked_of(asked) == [{"Type": "moby", "Attrs": {"name": "a:b"}}]
    with pytest.raises(NotBuilt, match="the exporter made-up"):
        exporting.kinds_of(exporting.asked_of({**asked, "ExporterDeprecated": "made-up"}))
    assert exporting.asked_of(protobuf.decode(SolveRequest, b"")) == []


def test_nothing_asked() -> None:
    assert wishes.read({}) == wishes.Asked()
    assert wishes.read({"vcs:localdir:context": ".", "vcs:revision": "abc", "attest:sbom": ""}) == wishes.Asked()


@pytest.mark.parametrize(
    ("key", "value", "name", "found"),
    [
        ("filename", "other/Dockerfile", "filename", "other/Dockerfile"),
        ("target", "one", "target", "one"),
        ("no-cache", "", "no_cache", True),
        ("no-cache", "", "no_cache_stages", ()),
        ("no-cache", "One,two", "no_cache_stages", ("one", "two")),
        ("no-cache", "one", "no_cache", False),
        ("platform", "linux/amd64", "platform", "linux/amd64"),
        ("platform", "linux/amd64, linux/arm64", "platform", "linux/amd64,linux/arm64"),
        ("context:x", "docker-image://busybox", "contexts", [NamedContext("x", "", "docker-image", "busybox")]),
        ("input-metadata:0-a", '{"other":"eA=="}', "input_configs", {"0-a": {}}),
        ("hostname", "h", "hostname", "h"),
        ("build-arg:BUILDKIT_SANDBOX_HOSTNAME", "h", "hostname", "h"),
        ("build-arg:BUILDKIT_CACHE_MOUNT_NS", "n", "cache_namespace", "n"),
        ("build-arg:BUILDKIT_SYNTAX", "a/b", "syntax", "a/b"),
        ("build-arg:BUILDKIT_CONTEXT_KEEP_GIT_DIR", "1", "keep_git_dir", True),
        ("build-arg:BUILDKIT_CONTEXT_KEEP_GIT_DIR", "maybe", "keep_git_dir", False),
        ("contextsubdir", "a/b", "subdir", "a/b"),
        ("dockerfilekey", "d", "own_dockerfile", True),
        ("memory", "1048576", "host", {"Memory": 1048576}),
        ("cpusetcpus", "0-1", "host", {"CpusetCpus": "0-1"}),
        ("cpuquota", "", "host", {}),
        ("image-resolve-mode", "pull", "pull", True),
        ("image-resolve-mode", "local", "pull", False),
        ("build-arg:A=B", "c", "args", {"A=B": "c"}),
        ("label:l", "", "labels", {"l": ""}),
        ("add-hosts", "a=1.2.3.4,b=::1", "host", {"ExtraHosts": ["a:1.2.3.4", "b:::1"]}),
        ("force-network-mode", "host", "host", {"NetworkMode": "host"}),
        ("force-network-mode", "sandbox", "host", {"NetworkMode": "default"}),
        ("shm-size", "1048576", "host", {"ShmSize": 1048576}),
        ("cgroup-parent", "/x", "host", {"CgroupParent": "/x"}),
        ("ulimit", "nofile=5:7", "host", {"Ulimits": [{"Name": "nofile", "Soft": 5, "Hard": 7}]}),
        ("context", "http://x/y.tar", "context", "http://x/y.tar"),
        ("contextkey", "c", "context_key", "c"),
        ("dockerfilekey", "d", "dockerfile_key", "d"),
        ("local-sessionid:c", "s", "sessions", {"c": "s"}),
        ("ulimit", "core=-1", "host", {"Ulimits": [{"Name": "core", "Soft": -1, "Hard": -1}]}),
    ],
)
def test_an_option(key: str, value: str, name: str, found: object) -> None:
    assert getattr(wishes.read({key: value}), name) == found


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("frontend.caps", "moby.buildkit.frontend.inputs,moby.buildkit.frontend.weather"),
    ],
)
def test_what_is_not_built(key: str, value: str) -> None:
    with pytest.raises(NotBuilt, match=r"not built in this engine|unsupported frontend capability"):
        wishes.read({key: value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("platform", "?"),
        ("force-network-mode", "bridge"),
        ("shm-size", "1m"),
        ("shm-size", "-1"),
        ("cgroup-parent", "../../x"),
        ("cgroup-parent", "/a/../x"),
        ("ulimit", "=5"),
        ("add-hosts", "a\rb"),
        ("ulimit", "nofile"),
        ("ulimit", "nofile=a:b"),
        ("image-resolve-mode", "never"),
        ("platform", "linux/amd64,"),
        ("platform", ",".join(f"linux/a{number}" for number in range(65))),
        ("context:x", "dir"),
        ("memory", "much"),
        ("multi-platform", "maybe"),
        ("input-metadata:x", "[]x"),
        ("input-metadata:x", '{"containerimage.config": 1}'),
        ("input-metadata:x", '{"containerimage.config": "?"}'),
        ("input-metadata:x", '{"containerimage.config": "W10="}'),
    ],
)
def test_what_is_wrong(key: str, value: str) -> None:
    with pytest.raises(Invalid):
        wishes.read({key: value})


def test_several_platforms_are_several_results() -> None:
    assert wishes.read({"platform": "linux/arm64", "multi-platform": "true"}).indexed
    several = {"platform": "linux/amd64,linux/arm64"}
    assert wishes.read({**several, "multi-platform": "true"}).platform == several["platform"]
    with pytest.raises(Invalid, match="conflicting config"):
        wishes.read({**several, "multi-platform": "false"})
    with pytest.raises(Invalid, match="conflicting config"):
        wishes.read({**several, "build-arg:BUILDKIT_MULTI_PLATFORM": "0"})
