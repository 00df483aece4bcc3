"""Create: what a current dockerd answers to the same bodies, and what this engine refuses in its own words."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.daemon.api import schemas
from engine.daemon.api.body import decode_body
from engine.daemon.api.dispatch import status_of
from engine.daemon.containers import files, paths
from engine.daemon.containers.verbs.create import create
from engine.daemon.images.image import OCI_INDEX, OCI_MANIFEST
from engine.daemon.store import containers as table
from engine.dataclass import replace
from engine.errors import Conflict, EngineError, Invalid, NotBuilt, NotFound
from tests.unit.containers import recorded
from tests.unit.containers.fakes import BUSYBOX, PATH, FakeImage, FakeImages, make_engine


def recorded_creates() -> list[dict]:
    """The calls of the transcript that are about the body of create (broken JSON is tested with its decoder)."""
    return [
        call
        for call in recorded.calls().values()
        if call["request"]["path"].startswith("/v1.54/containers/create")
        and isinstance(call["request"].get("body"), dict)
        and call["note"] != "long runner"  # its volume takes what the image has there: tests/replay asks it
    ]


def ask(engine: object, body: dict, name: str | None = None) -> tuple[int, dict]:
    """(status, body of the answer) of a create, through the decoder of the API."""
    try:
        decoded = decode_body(json.dumps(body).encode(), "application/json", schemas.CONTAINER_CREATE, required=True)
        container, warnings = create(engine, name, decoded, None)
    except EngineError as error:
        return status_of(error), {"message": str(error)}
    return 201, {"Id": container.id, "Warnings": warnings}


@pytest.fixture
def engine(tmp_path):
    return make_engine(tmp_path)


@pytest.mark.parametrize("call", recorded_creates(), ids=lambda call: call["note"] or str(call["n"]))
def test_create_answers_as_dockerd_did(engine, call):
    recorded = call["response"]
    name = call["request"]["path"].partition("?name=")[2].replace("%20", " ") or None
    if call["note"] == "duplicate name":
        ask(engine, {"Cmd": ["x"]}, name)
    status, answer = ask(engine, call["request"]["body"], name)
    message = recorded["body"].get("message", "")
    if "CPUs" in message:
        count = len(os.sched_getaffinity(0))
        message = message.replace("to 2.00", f"to {count}.00").replace("only 2 CPUs", f"only {count} CPUs")
    if call["note"] == "create: cpuset bad":
        message, answer["message"] = message.partition("available:")[0], answer["message"].partition("available:")[0]
    if call["note"] == "duplicate name":
        message = message.replace(message.split('"')[3], engine.containers.find(name).id)
    assert (status, answer.get("message", "")) == (recorded["status"], message)
    assert recorded["status"] != 201 or answer["Warnings"] == recorded["body"]["Warnings"]


@pytest.mark.parametrize("body", [{}, {"HostConfig": {}}, {"NetworkingConfig": {}, "Unknown": 1}])
def test_a_body_without_a_word_on_the_container_is_refused(engine, body):
    assert ask(engine, body) == (400, {"message": "config cannot be empty in order to create a container"})


@pytest.mark.parametrize(
    ("shares", "text"),
    [(-1, "value must be a positive integer"), (1 << 40, "the kernel takes at most 262144")],
)
def test_shares_that_the_kernel_does_not_have_are_refused(engine, shares, text):
    status, answer = ask(engine, {"Image": "busybox", "HostConfig": {"CpuShares": shares}})
    assert (status, answer["message"]) == (400, f"invalid CPU shares ({shares}): {text}")


def test_the_size_of_storage_is_shown_and_not_kept_which_a_warning_tells(engine):
    status, answer = ask(engine, {"Image": "busybox", "HostConfig": {"StorageOpt": {"size": "1G"}}})
    assert status == 201 and "does not limit the size" in answer["Warnings"][0]
    assert engine.containers.find(answer["Id"]).host_config["StorageOpt"] == {"size": "1G"}
    for options, text in (({"size": "much"}, "invalid size: 'much'"), ({"quota": "1"}, "--storage-opt quota is not")):
        status, answer = ask(engine, {"Image": "busybox", "HostConfig": {"StorageOpt": options}})
        assert status == 400 and answer["message"].startswith(text)


def test_a_path_where_a_tmpfs_is_gets_no_volume(engine):
    body = {"Cmd": ["x"], "Volumes": {"/a": {}, "/b/": {}}, "HostConfig": {"Tmpfs": {"/b": "", "/c": ""}}}
    container, _ = create(engine, None, body, None)
    assert [point["Destination"] for point in container.mounts] == ["/a"]


def test_a_created_container_is_in_the_registry_the_database_and_on_the_disk(engine):
    container, warnings = create(engine, "one", {"Image": "busybox", "Hostname": "box"}, None)
    assert warnings == []
    assert engine.containers.find("one") is container
    with engine.database.reading() as connection:
        (loaded,) = table.load_all(connection)
        assert table.load_descriptors(connection) == engine.containers.descriptors
    for key in ("id", "name", "created_ns", "image", "image_id", "config", "host_config", "networking", "path", "args"):
        assert getattr(loaded, key) == getattr(container, key)
    assert (loaded.layers, loaded.state) == (("1",), container.state)
    where = paths.of(engine.settings.data_root, engine.settings.exec_root, container.id)
    assert Path(where.etc("hostname")).read_text() == "box\n"
    assert Path(where.etc("hosts")).read_text().startswith("127.0.0.1\tlocalhost\n")
    assert Path(where.etc("resolv.conf")).stat().st_mode & 0o777 == 0o644


def test_a_refused_container_leaves_nothing_and_frees_its_name(engine):
    with pytest.raises(NotBuilt):
        create(engine, "one", {"Image": "busybox", "HostConfig": {"Cgroup": "x"}}, None)
    assert os.listdir(f"{engine.settings.data_root}/containers") == []
    assert engine.containers.using(BUSYBOX) == []
    create(engine, "one", {"Image": "busybox"}, None)


def test_a_container_whose_record_cannot_be_written_leaves_nothing(engine):
    with engine.database.transaction() as connection:
        connection.execute("DROP TABLE containers")
    with pytest.raises(Exception, match="no such table"):
        create(engine, "one", {"Image": "busybox"}, None)
    assert os.listdir(f"{engine.settings.data_root}/containers") == []


def test_an_image_removed_while_a_container_is_made_from_it_is_missed(engine):
    find = engine.images.find

    def find_once(reference, platform=None):
        image = find(reference, platform)
        engine.images.by_name.clear()
        return image

    engine.images.find = find_once
    with pytest.raises(NotFound, match="No such image: sha256:3d6c"):
        create(engine, None, {"Image": "busybox"}, None)
    assert os.listdir(f"{engine.settings.data_root}/containers") == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((name, ["A=b\0c"]) for name in ("Env", "Cmd", "Entrypoint")),
        *((name, "/b\0c") for name in ("Hostname", "Domainname", "User", "WorkingDir")),
        ("Volumes", {"/b\0c": {}}),
    ],
)
def test_a_nul_that_no_system_call_takes_is_refused(engine, field, value):
    status, answer = ask(engine, {"Image": "busybox", field: value})
    assert (status, answer["message"]) == (400, f"invalid {field}: a NUL character cannot be passed on")


def test_a_taken_name_is_a_conflict_that_names_its_holder(engine):
    first, _ = create(engine, "one", {"Image": "busybox"}, None)
    with pytest.raises(Conflict, match=f'The container name "/one" is already in use by container "{first.id}"'):
        create(engine, "/one", {"Image": "busybox"}, None)


def test_the_image_fills_in_what_the_client_left_open(tmp_path):
    image = FakeImage(
        config={
            "architecture": "amd64",
            "os": "linux",
            "config": {
                "Env": ["A=image", "B=image"],
                "Entrypoint": ["/entry"],
                "Cmd": ["image"],
                "Labels": {"a": "image", "b": "image"},
                "WorkingDir": "/srv",
                "User": "web",
                "ExposedPorts": {"80/tcp": {}},
                "StopSignal": "SIGINT",
            },
        },
        id="sha256:" + "1" * 64,
        manifest="sha256:" + "1" * 64,
    )
    engine = make_engine(tmp_path, FakeImages(web=image, **{image.id: image}))
    body = {"Image": "web", "Env": ["A=client"], "Labels": {"a": "client"}, "ExposedPorts": {"81/tcp": {}}}
    container, _ = create(engine, None, body, "linux/amd64")
    config = container.config
    assert config["Env"] == ["A=client", "B=image"]
    assert config["Labels"] == {"a": "client", "b": "image"}
    assert config["ExposedPorts"] == {"80/tcp": {}, "81/tcp": {}}
    assert (config["WorkingDir"], config["User"], config["StopSignal"]) == ("/srv", "web", "SIGINT")
    assert (container.path, container.args) == ("/entry", ["image"])
    container, _ = create(engine, None, {"Image": "web", "Entrypoint": ["/mine"]}, "linux/amd64")
    assert (container.path, container.args) == ("/mine", [])
    container, _ = create(engine, None, {"Image": "web", "Entrypoint": [], "Cmd": ["only"]}, "linux/amd64")
    assert (container.path, container.args) == ("only", [])


def test_an_image_for_another_platform_is_a_warning(tmp_path):
    image = FakeImage(config={"architecture": "s390x", "os": "linux", "config": {"Cmd": ["x"]}})
    engine = make_engine(tmp_path, FakeImages(far=image))
    _, (warning,) = create(engine, None, {"Image": "far"}, None)
    assert warning.startswith(
        "The requested image's platform (linux/s390x) does not match the detected host platform ("
    )


@dataclass
class Content:
    """The blobs of images, by their digests."""

    blobs: dict[str, bytes]

    def has(self, digest: str) -> bool:
        """Whether it is here."""
        return digest in self.blobs

    def read(self, digest: str, limit: int) -> bytes:
        """All of one, which is not long."""
        return self.blobs.get(digest, b"")[:limit]


@pytest.mark.parametrize("said", [{}, {"platform": {"architecture": "riscv64", "os": "linux", "variant": "v1"}}])
def test_of_an_index_the_manifest_is_shown_that_runs(tmp_path, said):
    """As the index has it; a platform that it does not say is that of the config."""
    index, manifest = "sha256:" + "1" * 64, "sha256:" + "2" * 64
    entry = {"mediaType": OCI_MANIFEST, "digest": manifest, "size": 43, "annotations": {"a": "b"}, **said}
    whole = {"mediaType": OCI_INDEX, "digest": index, "size": 2}
    image = FakeImage(id=index, manifest=manifest, descriptor=whole)
    engine = make_engine(tmp_path, FakeImages(many=image, **{index: image}))
    engine.images.content = Content({index: json.dumps({"manifests": [entry]}).encode()})
    container, _ = create(engine, None, {"Image": "many"}, None)
    assert container.image_id == index
    own = {key: image.config[key] for key in ("architecture", "os")}
    assert engine.containers.descriptors[index, manifest] == {"platform": own, **entry}


def test_what_the_docker_cli_sends_by_default_passes(engine):
    # docker 28.2.2: docker run --rm -i busybox echo hi
    body = {
        "Hostname": "", "Domainname": "", "User": "", "AttachStdin": True, "AttachStdout": True, "AttachStderr": True,
        "Tty": False, "OpenStdin": True, "StdinOnce": True, "Env": None, "Cmd": ["echo", "hi"], "Image": "busybox",
        "Volumes": {}, "WorkingDir": "", "Entrypoint": None, "OnBuild": None, "Labels": {},
        "HostConfig": {
            "Binds": None, "ContainerIDFile": "", "LogConfig": {"Type": "", "Config": {}}, "NetworkMode": "default",
            "PortBindings": {}, "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0}, "AutoRemove": True,
            "VolumeDriver": "", "VolumesFrom": None, "ConsoleSize": [0, 0], "CapAdd": None, "CapDrop": None,
            "CgroupnsMode": "", "Dns": [], "DnsOptions": [], "DnsSearch": [], "ExtraHosts": None, "GroupAdd": None,
            "IpcMode": "", "Cgroup": "", "Links": None, "OomScoreAdj": 0, "PidMode": "", "Privileged": False,
            "PublishAllPorts": False, "ReadonlyRootfs": False, "SecurityOpt": None, "UTSMode": "", "UsernsMode": "",
            "ShmSize": 0, "Isolation": "", "CpuShares": 0, "Memory": 0, "NanoCpus": 0, "CgroupParent": "",
            "BlkioWeight": 0, "BlkioWeightDevice": [], "BlkioDeviceReadBps": [], "BlkioDeviceWriteBps": [],
            "BlkioDeviceReadIOps": [], "BlkioDeviceWriteIOps": [], "CpuPeriod": 0, "CpuQuota": 0,
            "CpuRealtimePeriod": 0, "CpuRealtimeRuntime": 0, "CpusetCpus": "", "CpusetMems": "", "Devices": [],
            "DeviceCgroupRules": None, "DeviceRequests": None, "MemoryReservation": 0, "MemorySwap": 0,
            "MemorySwappiness": -1, "OomKillDisable": False, "PidsLimit": 0, "Ulimits": [], "CpuCount": 0,
            "CpuPercent": 0, "IOMaximumIOps": 0, "IOMaximumBandwidth": 0, "MaskedPaths": None, "ReadonlyPaths": None,
        },
        "NetworkingConfig": {"EndpointsConfig": {"default": {
            "IPAMConfig": None, "Links": None, "Aliases": None, "MacAddress": "", "DriverOpts": None, "GwPriority": 0,
            "NetworkID": "", "EndpointID": "", "Gateway": "", "IPAddress": "", "IPPrefixLen": 0, "IPv6Gateway": "",
            "GlobalIPv6Address": "", "GlobalIPv6PrefixLen": 0, "DNSNames": None,
        }}},
    }  # fmt: skip
    status, answer = ask(engine, body)
    assert (status, answer.get("Warnings")) == (201, [])
    container = engine.containers.find(answer["Id"])
    assert list(container.networking) == ["bridge"]
    assert (container.host_config["PidsLimit"], container.host_config["MemorySwappiness"]) == (None, None)
    assert container.config["Env"] == [PATH]


def test_the_hosts_name_is_the_container_s_in_the_hosts_network(engine):
    container, _ = create(engine, None, {"Image": "busybox", "HostConfig": {"NetworkMode": "host"}}, None)
    assert container.config["Hostname"] == os.uname().nodename
    container, _ = create(engine, None, {"Image": "busybox", "HostConfig": {"NetworkMode": "none"}}, None)
    assert container.config["Hostname"] == container.id[:12]
    assert list(container.networking) == ["none"]


def test_nothing_to_run_is_refused(engine):
    with pytest.raises(Invalid, match="no command specified"):
        create(engine, None, {"Image": ""}, None)


def test_homes_without_a_record_are_swept(engine):
    container, _ = create(engine, None, {"Image": "busybox"}, None)
    os.mkdir(f"{engine.settings.data_root}/containers/{'0' * 64}")
    files.sweep(engine.settings.data_root, engine.containers.__contains__)
    assert os.listdir(f"{engine.settings.data_root}/containers") == [container.id]


def test_missing_files_are_mended(engine):
    container, _ = create(engine, None, {"Image": "busybox"}, None)
    where = paths.of(engine.settings.data_root, engine.settings.exec_root, container.id)
    os.truncate(where.etc("hosts"), 0)
    os.unlink(where.etc("hostname"))
    files.mend(where, container)
    assert Path(where.etc("hostname")).read_text() == f"{container.id[:12]}\n"
    assert os.path.getsize(where.etc("hosts")) > 0


def test_published_ports_mean_nothing_in_the_hosts_network(tmp_path):
    ports = {"80/tcp": [{"HostPort": "80"}]}
    body = {"Image": "busybox", "HostConfig": {"PortBindings": ports, "NetworkMode": "host"}}
    _, warnings = create(make_engine(tmp_path), None, body, None)
    assert warnings == ["Published ports are discarded when using host network mode"]


def test_who_says_nothing_gets_what_the_daemon_was_told(engine):
    engine.settings = replace(
        engine.settings, default_ipc_mode="shareable", default_cgroupns_mode="host", default_shm_size=1 << 20
    )
    silent, _ = create(engine, "silent", {"Image": "busybox", "HostConfig": {"IpcMode": "", "ShmSize": 0}}, None)
    shown = [silent.host_config[key] for key in ("IpcMode", "CgroupnsMode", "ShmSize")]
    assert shown == ["shareable", "host", 1 << 20]
    asked = {"IpcMode": "private", "CgroupnsMode": "private", "ShmSize": 1 << 16}
    told, _ = create(engine, "told", {"Image": "busybox", "HostConfig": asked}, None)
    assert {key: told.host_config[key] for key in asked} == asked
