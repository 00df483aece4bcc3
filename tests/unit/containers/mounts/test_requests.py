"""What asks for mounts, read as dockerd 20.10 reads it: the answers in the tables are its own."""

import pytest

from engine.daemon.containers.mounts import requests
from engine.errors import Invalid, SystemFailure

SPEC = "invalid volume specification: '{}'"
DUPLICATE = "Duplicate mount point: /x"

# A bind, and (Type, Source or Name, Destination, Mode, RW, Propagation).
BINDS = (
    ("/x", ("volume", "", "/x", "", True, "")),
    ("vol:/x:nocopy", ("volume", "vol", "/x", "nocopy", True, "")),
    ("vol:/x:ro,nocopy", ("volume", "vol", "/x", "ro,nocopy", False, "")),
    ("/tmp:/x/../y//z:ro", ("bind", "/tmp", "/y/z", "ro", False, "rprivate")),
    ("//tmp//a/:/x", ("bind", "/tmp/a", "/x", "", True, "rprivate")),
    ("/tmp:/x:cached", ("bind", "/tmp", "/x", "cached", True, "rprivate")),
    ("/tmp:/x:Z,rslave,ro", ("bind", "/tmp", "/x", "Z,rslave,ro", False, "rslave")),
    ("/tmp:/x:shared", ("bind", "/tmp", "/x", "shared", True, "shared")),
)
# A bind, and the words of its refusal; `for` the kind of mount, after the specification.
BAD_BINDS = (
    ("", SPEC),
    ("/", SPEC + ": invalid mount config for type \"volume\": invalid specification: destination can't be '/'"),
    ("/x:", SPEC),
    ("a:b:c:d", SPEC),
    ("/tmp:/x:ro,rw", "invalid mode: ro,rw"),
    ("/tmp:/x:zz", "invalid mode: zz"),
    ("/tmp:/x:ro,ro", "invalid mode: ro,ro"),
    ("/tmp:/x:z,Z", "invalid mode: z,Z"),
    ("/x:ro", SPEC),
    ("x", SPEC + ": invalid mount config for type \"volume\": invalid mount path: 'x' mount path must be absolute"),
    ("vol:/x:rslave", SPEC + ': invalid mount config for type "volume": field BindOptions must not be specified'),
    ("/tmp:/x:nocopy", SPEC + ': invalid mount config for type "bind": field VolumeOptions must not be specified'),
    ("/x::ro", SPEC + ': invalid mount config for type "bind": field Target must not be empty'),
    (":/x", SPEC),
    ("/tmp:/", SPEC + ": invalid mount config for type \"bind\": invalid specification: destination can't be '/'"),
    ("/tmp:x", SPEC + ": invalid mount config for type \"bind\": invalid mount path: 'x' mount path must be absolute"),
    ("vol:x", SPEC + ": invalid mount config for type \"volume\": invalid mount path: 'x' mount path must be absolute"),
    ("/tmp:/x:,", "invalid mode: ,"),
    ("vol:/x:consistent,delegated", "invalid mode: consistent,delegated"),
    ("::", SPEC),
    ("/tmp:/x:ro:", SPEC),
    ("C:\\x:/y", "invalid mode: /y"),
    ("/tmp:/x:RO", "invalid mode: RO"),
)


@pytest.mark.parametrize(("bind", "point"), BINDS)
def test_a_bind_is_read_as_dockerd_reads_it(bind, point):
    read = requests.parse_bind(bind)
    named = "Source" if read["Type"] == "bind" else "Name"
    assert tuple(read[key] for key in ("Type", named, "Destination", "Mode", "RW", "Propagation")) == point


@pytest.mark.parametrize(("bind", "words"), BAD_BINDS)
def test_a_bind_that_cannot_be_is_refused_in_dockerds_words(bind, words):
    with pytest.raises(requests.UncheckedByDockerd) as refused:
        requests.parse_bind(bind)
    assert str(refused.value) == words.replace("{}", bind)


def mount(kind, **values):
    """An entry of Mounts."""
    return {"Type": kind, "Source": "/", "Target": "/x", **values}


BAD_MOUNTS = (
    (mount("bind", Target=""), "field Target must not be empty"),
    (mount("bind", Target="/"), "invalid specification: destination can't be '/'"),
    (mount("bind", Target="x"), "invalid mount path: 'x' mount path must be absolute"),
    (mount("bind", Source=""), "field Source must not be empty"),
    (mount("bind", Source="rel"), "invalid mount path: 'rel' mount path must be absolute"),
    (mount("bind", Source="/nope/x"), "bind source path does not exist: /nope/x"),
    (mount("bind", BindOptions={"Propagation": "zz"}), "invalid propagation mode: zz"),
    (mount("bind", VolumeOptions={}), "field VolumeOptions must not be specified"),
    (mount("volume", BindOptions={}), "field BindOptions must not be specified"),
    (mount("volume", Source="", ReadOnly=True), "must not set ReadOnly mode when using anonymous volumes"),
    (
        mount("volume", Source="", VolumeOptions={"Subpath": "a"}),
        "must not set Subpath when using anonymous volumes",
    ),
    *(
        (mount("volume", VolumeOptions={"Subpath": path}), "subpath must be a relative path within the volume")
        for path in ("/a", "..", "../a", "a/../../b")
    ),
    (mount("image", ImageOptions={"Subpath": "../a"}), "subpath must be a relative path within the volume"),
    (mount("image", Source=""), "field Source must not be empty"),
    (mount("tmpfs"), "field Source must not be specified"),
    (mount("tmpfs", Source="", TmpfsOptions={"Options": [["suid"]]}), "invalid option: suid"),
    (mount("tmpfs", Source="", TmpfsOptions={"Options": [[]]}), "invalid option array length"),
    (mount("tmpfs", Source="", TmpfsOptions={"Options": [None]}), "invalid option array length"),
    (mount("npipe"), "mount type unknown"),
    (mount("cluster"), "mount type unknown"),
    (mount(""), "mount type unknown"),
)


@pytest.mark.parametrize(("asked", "words"), BAD_MOUNTS)
def test_a_mount_that_cannot_be_is_refused_in_dockerds_words(asked, words):
    with pytest.raises(Invalid) as refused:
        requests.check_mounts([asked])
    assert str(refused.value) == f'invalid mount config for type "{asked["Type"]}": {words}'


def test_the_options_of_mounts_are_kept():
    options = {"Propagation": "rslave", "NonRecursive": True, "CreateMountpoint": False, "ReadOnlyNonRecursive": True}
    read = requests.parse_mount(mount("bind", BindOptions=options, ReadOnly=True))
    assert (read["RW"], read["Propagation"]) == (False, "rslave")
    assert read["Spec"] == {"NonRecursive": True, "ReadOnlyNonRecursive": True}
    options = {"NoCopy": True, "Labels": {"a": "b"}, "DriverConfig": {"Name": "local", "Options": {"o": "bind"}}}
    read = requests.parse_mount(mount("volume", Source="name", VolumeOptions=options))
    assert (read["Name"], read["Driver"], read["Spec"]["Copy"]) == ("name", "local", False)
    assert read["Spec"]["Labels"] == {"a": "b"} and read["Spec"]["DriverOptions"] == {"o": "bind"}


@pytest.mark.parametrize(
    ("binds", "mounts", "tmpfs"),
    [
        (["/tmp:/x", "/etc:/x"], [], None),
        (["/tmp:/x", "/tmp:/x/../x"], [], None),
        (["/tmp:/x"], [mount("bind")], None),
        ([], [mount("bind"), mount("bind", Target="/x/")], None),
        (["/tmp:/x/"], [], {"/x": ""}),
    ],
)
def test_a_place_is_mounted_once(binds, mounts, tmpfs):
    with pytest.raises(Invalid, match=f"^{DUPLICATE}$"):
        requests.check_binds(binds, mounts, tmpfs)


@pytest.mark.parametrize(
    ("text", "read"), [("c", ("c", True)), ("c:ro", ("c", False)), ("c:rw", ("c", True)), ("c:", ("c", True))]
)
def test_volumes_from(text, read):
    assert requests.parse_volumes_from(text) == read


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "volumes-from specification cannot be an empty string"),
        ("c:zz", "invalid mode: zz"),
        ("c:rslave", "invalid mode: rslave"),
        ("c:nocopy", "invalid mode: nocopy"),
    ],
)
def test_volumes_from_that_cannot_be(text, words):
    with pytest.raises(Invalid, match=f"^{words}$"):
        requests.parse_volumes_from(text)


@pytest.mark.parametrize(
    ("text", "flags", "data"),
    [
        ("", {"noexec", "nosuid", "nodev"}, ""),
        ("exec,dev,suid", set(), ""),
        ("size=1m,mode=1770,uid=5", {"noexec", "nosuid", "nodev"}, "size=1m,mode=1770,uid=5"),
        ("ro,rw,size=1m,size=2m", {"noexec", "nosuid", "nodev"}, "size=2m"),
        ("rw,ro,defaults", {"noexec", "nosuid", "nodev", "ro"}, ""),
    ],
)
def test_options_of_a_tmpfs(text, flags, data):
    assert requests.tmpfs_options(text) == (tuple(sorted(flags, key=ORDER.index)), data, "")


ORDER = ["noexec", "nosuid", "nodev", "ro"]


@pytest.mark.parametrize(
    ("text", "words"), [("zz", "zz"), ("a=b,ro", "a"), (",", ""), ("size", "size"), ("a=1,b=2", "b")]
)
def test_options_that_a_tmpfs_does_not_know(text, words):
    with pytest.raises(SystemFailure) as refused:
        requests.tmpfs_options(text)
    assert str(refused.value) == f'invalid tmpfs option "{words}"'


@pytest.mark.parametrize(
    ("options", "writable", "text"),
    [
        ({}, True, ""),
        ({}, False, "ro"),
        ({"SizeBytes": 3 << 30}, True, "size=3g"),
        ({"SizeBytes": 1536 << 10, "Mode": 0o1777}, True, "mode=1777,size=1536k"),
        ({"SizeBytes": 1000, "Options": [["exec"], ["noexec"]]}, False, "ro,size=1000,exec,noexec"),
    ],
)
def test_tmpfs_options_become_the_text_that_dockerd_makes(options, writable, text):
    assert requests.tmpfs_text(options, writable) == text
