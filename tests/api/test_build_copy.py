"""COPY and ADD on a daemon: the contexts that dockerd 20.10's own builder was given, and the trees it made of them.

Where this builder means to differ it says why: a file keeps its setuid bit and its capabilities (dockerd's chown takes
them away), and --chmod, --exclude, --parents, --link and here-documents are there, which BuildKit brought.
"""

import bz2
import gzip
import hashlib
import lzma
import tarfile

import pytest

from tests.harness.contexts import Member, archive, build, hard, link, tree
from tests.harness.daemon import Daemon

BASE = archive(
    Member("etc", None),
    Member("etc/passwd", "root:x:0:0::/:/bin/sh\nbob:x:1000:1000::/:/bin/sh\ndup:x:7:7::/:\n"),
    Member("etc/group", "root:x:0:\nbob:x:1001:\nstaff:x:50:\n"),
    link("lib", "usr/lib"),
    Member("usr", None),
    Member("usr/lib", None, mode=0o1777, uid=5),
    link("up", "../../../../tmp/escape"),
    link("dang", "/nowhere/x"),
    Member("d", None, mode=0o700, uid=3, gid=4),
    Member("d/old", "old"),
    Member("d/sub", None, mode=0o711),
    link("d/link", "/usr/lib"),
    link("d/flink", "../file"),
    Member("file", "file"),
    link("loop", "loop"),
)
CONTEXT = (
    Member("f", "x", mode=0o755, uid=11, gid=12),
    Member("s", None, mode=0o750, uid=9),
    Member("s/a", "a", mode=0o600),
    link("s/link", "/etc/passwd"),
    Member("s/sub", None, mode=0o700),
    Member("s/sub/b", "b"),
    link("l", "f"),
    link("ls", "s"),
    link("out", "/etc/passwd"),
    link("outd", "../../.."),
)
CONTENTS = {"a": "-0600 0:0 a", "link": "l0777 0:0 -> /etc/passwd", "sub": "d0700 0:0", "sub/b": "-0644 0:0 b"}
NOT_FOUND = "COPY failed: file not found in build context or excluded by .dockerignore: stat {}: file does not exist"
FORBIDDEN = "COPY failed: forbidden path outside the build context: {} ()"
SEVERAL = "When using {} with more than one source file, the destination must be a directory and end with a /"
CHOWN = "unable to convert uid/gid chown string to host mapping: "


def below(name: str, own: str, inside: dict[str, str], owner: str = "0:0") -> dict[str, str]:
    """A directory and what is in it."""
    return {name: own, **{f"{name}/{key}": value.replace("0:0", owner, 1) for key, value in inside.items()}}


# The instruction, the path to look at, and what is there: (name → mode, owner, contents).
TREES = {
    "COPY f /new": ("new", {"new": "-0755 0:0 x"}),
    "COPY f /n1/n2/": ("n1", {"n1": "d0755 0:0", "n1/n2": "d0755 0:0", "n1/n2/f": "-0755 0:0 x"}),
    "COPY --chown=bob f /n1/n2/": (
        "n1",
        {"n1": "d0755 1000:1001", "n1/n2": "d0755 1000:1001", "n1/n2/f": "-0755 1000:1001 x"},
    ),
    "COPY --chown=bob s /n1/n2": (
        "n1",
        {"n1": "d0755 0:0", **below("n1/n2", "d0755 1000:1001", CONTENTS, "1000:1001")},
    ),
    "COPY s /d": (
        "d",
        {
            **below("d", "d0700 3:4", CONTENTS),
            "d/old": "-0644 0:0 old",
            "d/flink": "l0777 0:0 -> ../file",
        },
    ),
    "COPY f /lib": ("usr/lib", {"lib": "d1777 5:0", "lib/f": "-0755 0:0 x"}),
    "COPY f /lib/x/y": ("usr/lib", {"lib": "d1777 5:0", "lib/x": "d0755 0:0", "lib/x/y": "-0755 0:0 x"}),
    "COPY f /up/x": ("tmp", {"tmp": "d0755 0:0", "tmp/escape": "d0755 0:0", "tmp/escape/x": "-0755 0:0 x"}),
    "COPY f /dang": ("nowhere", {"nowhere": "d0755 0:0", "nowhere/x": "-0755 0:0 x"}),
    "COPY f /d/flink": ("file", {"file": "-0755 0:0 x"}),
    "COPY f /d/link": ("usr/lib", {"lib": "d1777 5:0", "lib/f": "-0755 0:0 x"}),
    "COPY l /l1": ("l1", {"l1": "-0755 0:0 x"}),
    "COPY ls /l2": ("l2", below("l2", "d0755 0:0", CONTENTS)),
    "COPY f s /m/": ("m", {**below("m", "d0755 0:0", CONTENTS), "m/f": "-0755 0:0 x"}),
    "COPY no* f /x": ("x", {"x": "-0755 0:0 x"}),
    "COPY [fl] /w/": ("w", {"w": "d0755 0:0", "w/f": "-0755 0:0 x", "w/l": "-0755 0:0 x"}),
    "COPY --chown=12:staff f /x": ("x", {"x": "-0755 12:50 x"}),
    "COPY f/ /x": ("x", {"x": "-0755 0:0 x"}),
    "COPY ./s/sub/../a /w/": ("w", {"w": "d0755 0:0", "w/a": "-0600 0:0 a"}),
    "COPY s/sub* /w/": ("w", {"w": "d0755 0:0", "w/b": "-0644 0:0 b"}),
    "COPY --chmod=640 f s/sub /w/": ("w", {"w": "d0755 0:0", "w/f": "-0640 0:0 x", "w/b": "-0640 0:0 b"}),
    "COPY --chmod=u=rwX,go=rX s /w": (
        "w",
        {
            "w": "d0755 0:0",
            "w/a": "-0644 0:0 a",
            "w/link": "l0777 0:0 -> /etc/passwd",
            "w/sub": "d0755 0:0",
            "w/sub/b": "-0644 0:0 b",
        },
    ),
    "COPY --exclude=sub --exclude=l* s /w": ("w", {"w": "d0755 0:0", "w/a": "-0600 0:0 a"}),
    "COPY --exclude=** --exclude=!sub/b s /w": (
        "w",
        {"w": "d0755 0:0", "w/sub": "d0755 0:0", "w/sub/b": "-0644 0:0 b"},
    ),
    "COPY --parents s/sub/b f /w": (
        "w",
        {
            "w": "d0755 0:0",
            "w/f": "-0755 0:0 x",
            "w/s": "d0750 0:0",
            "w/s/sub": "d0700 0:0",
            "w/s/sub/b": "-0644 0:0 b",
        },
    ),
    "COPY --parents s/./**/b /w/": ("w", {"w": "d0755 0:0", "w/sub": "d0700 0:0", "w/sub/b": "-0644 0:0 b"}),
    "COPY --parents ./s/sub /w/": (
        "w",
        {"w": "d0755 0:0", "w/s": "d0750 0:0", "w/s/sub": "d0700 0:0", "w/s/sub/b": "-0644 0:0 b"},
    ),
    "COPY --link f /lib/y": ("lib", {"lib": "d0755 0:0", "lib/y": "-0755 0:0 x"}),
    "ADD f /lib/": ("usr/lib", {"lib": "d1777 5:0", "lib/f": "-0755 0:0 x"}),
    "COPY <<one <<two /h/\n1\none\n2 $x\ntwo": (
        "h",
        {"h": "d0755 0:0", "h/one": "-0644 0:0 1\n", "h/two": "-0644 0:0 2 \n"},
    ),
}
ERRORS = {
    "COPY out /x": NOT_FOUND.format("out"),
    "COPY f s /m": SEVERAL.format("COPY"),
    "COPY f l .": SEVERAL.format("COPY"),
    "ADD f s /m": SEVERAL.format("ADD"),
    "COPY nope /": NOT_FOUND.format("nope"),
    "COPY nope/x /": NOT_FOUND.format("nope/x"),
    "COPY no* /": "COPY failed: no source files were specified",
    "COPY [ /": "COPY failed: no source files were specified",
    "COPY ../f /": FORBIDDEN.format("../f"),
    "COPY ../../etc/passwd /": FORBIDDEN.format("../../etc/passwd"),
    "COPY s/../../f /": FORBIDDEN.format("s/../../f"),
    "COPY f/x /": FORBIDDEN.format("f/x"),
    "COPY s/* /w/": NOT_FOUND.format("s/link"),
    "COPY f /file/x": "failed to copy files: lstat /file/x: not a directory",
    "COPY s /file": "failed to copy files: failed to copy directory: mkdir /file: not a directory",
    "COPY f /loop/x": "failed to copy files: evalSymlinksInScope: too many links in /loop/x",
    "COPY --chown=nobody f /": f"{CHOWN}can't find uid for user nobody: no such user: nobody",
    "COPY --chown=bob:nogroup f /": f"{CHOWN}can't find gid for group nogroup: no such group: nogroup",
    "COPY --chown=a:b:c f /": f"{CHOWN}invalid chown string format: a:b:c",
    "COPY --chown=:staff f /": f"{CHOWN}can't find uid for user : no such user: ",
    "COPY --chmod=9 f /": "invalid chmod parameter: '9'. it should be octal string and between 0 and 07777",
    "ADD nope /": NOT_FOUND.format("nope").replace("COPY", "ADD"),
}


@pytest.fixture(scope="module")
def base(daemon: Daemon):
    """An image with directories, links and users for files to be put among."""
    yield daemon.import_image(BASE, "links:latest")
    daemon.request("DELETE", "/images/links:latest?force=1")


@pytest.mark.parametrize("words", TREES)
def test_the_tree_is_the_one_that_dockerd_makes(daemon: Daemon, base: str, words: str) -> None:
    made = build(daemon, f"FROM links\n{words}", *CONTEXT)
    assert made.id, made
    path, expected = TREES[words]
    assert tree(daemon, made.id, path) == expected | ({"d/link": "l0777 0:0 -> /etc/passwd"} if path == "d" else {})


@pytest.mark.parametrize("words", ERRORS)
def test_what_cannot_be_copied_is_told_in_dockerds_words(daemon: Daemon, base: str, words: str) -> None:
    assert build(daemon, f"FROM links\n{words}", *CONTEXT).error == ERRORS[words]


def test_paths_are_relative_to_the_working_directory(daemon: Daemon) -> None:
    words = "FROM scratch\nWORKDIR /wd/x\nCOPY a y/\nCOPY a .\nCOPY a ..\nCOPY a ./b/\nCOPY a z"
    made = build(daemon, words, Member("a", "1"))
    names = {"wd", "wd/x", "wd/a", "wd/x/a", "wd/x/z", "wd/x/y", "wd/x/y/a", "wd/x/b", "wd/x/b/a"}
    assert set(tree(daemon, made.id, "wd")) == names


ARCHIVE = archive(
    Member("lib/inlib", "x", uid=33, gid=44, mode=0o4711),
    Member("d/link/q", "q"),
    Member("d/sub", None, mode=0o700),
    Member("d/old", "new"),
    Member("file", None),
    Member("file/in", "in"),
    Member("hl", "h"),
    hard("hl2", "hl"),
    link("sl", "../../../etc"),
    Member("ff", kind=tarfile.FIFOTYPE),
    Member("etc/.wh.group"),
)


def test_an_archive_is_unpacked_through_the_links_of_the_base_and_keeps_its_owners(daemon: Daemon, base: str) -> None:
    made = build(daemon, "FROM links\nADD --chown=bob a.tar /", Member("a.tar", ARCHIVE))
    assert made.id, made
    assert tree(daemon, made.id, "usr/lib") == {
        "lib": "d1777 5:0",
        "lib/inlib": "-4711 33:44 x",
        "lib/q": "-0644 0:0 q",
    }
    assert tree(daemon, made.id, "lib") == {"lib": "l0777 0:0 -> usr/lib"}
    inside = tree(daemon, made.id, "d")
    assert (inside["d"], inside["d/sub"], inside["d/old"]) == ("d0700 3:4", "d0700 0:0", "-0644 0:0 new")
    assert tree(daemon, made.id, "file") == {"file": "d0755 0:0", "file/in": "-0644 0:0 in"}
    assert tree(daemon, made.id, "ff") == {"ff": "p0644 0:0"}
    # As for dockerd a name that looks like a whiteout is one, once the layer is unpacked.
    assert "etc/group" not in tree(daemon, made.id, "etc")


def test_an_archive_is_unpacked_over_the_ones_before_it(daemon: Daemon) -> None:
    first = archive(link("lib", "usr/lib"), Member("usr/lib", None), Member("f", "of the first"))
    second = archive(Member("lib/x", "x"), Member("f", "of the second"))
    made = build(daemon, "FROM scratch\nADD 1 2 plain /", Member("1", first), Member("2", second), Member("plain", "p"))
    assert made.id, made
    assert tree(daemon, made.id, "lib") == {"lib": "l0777 0:0 -> usr/lib"}
    assert tree(daemon, made.id, "usr/lib") == {"lib": "d0755 0:0", "lib/x": "-0644 0:0 x"}
    assert tree(daemon, made.id, "f") == {"f": "-0644 0:0 of the second"}


def test_archives_are_known_by_their_contents_alone(daemon: Daemon) -> None:
    small = archive(Member("only", "1"))
    packed = {"a.gz": gzip.compress(small), "b": bz2.compress(small), "c.txt": lzma.compress(small), "d": small}
    words = "\n".join(f"ADD {name} /{name}/" for name in packed)
    others = {"text": b"hello", "empty": b"", "zeros": bytes(1024), "text.gz": gzip.compress(b"hello", mtime=0)}
    words += "\nADD " + " ".join(others) + " /o/\nCOPY d /o/\nADD --unpack=false d /p/"
    members = [Member(name, data) for name, data in {**packed, **others}.items()]
    made = build(daemon, f"FROM scratch\n{words}", *members)
    assert made.id, made
    for name in packed:
        assert f"{name}/only" in tree(daemon, made.id, name)
    answer = daemon.create(Image=made.id, Cmd=["x"])
    try:
        assert daemon.request("HEAD", f"/containers/{answer}/archive?path=/p/d").status == 200
        for name in (*others, "d"):
            assert daemon.request("HEAD", f"/containers/{answer}/archive?path=/o/{name}").status == 200
    finally:
        daemon.remove(answer)


def test_setuid_bits_capabilities_hard_links_devices_and_times_come_along(daemon: Daemon) -> None:
    capability = "\x01\0\0\x02\0\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
    members = (
        Member("t", None),
        Member("t/su", "s", mode=0o6755),
        Member("t/cap", "c", attributes=(("security.capability", capability),)),
        Member("t/one", "1"),
        hard("t/two", "t/one"),
        Member("t/null", kind=tarfile.CHRTYPE, device=(1, 3), mode=0o666),
        Member("t/pipe", kind=tarfile.FIFOTYPE),
    )
    made = build(daemon, "FROM scratch\nCOPY t /t\nFROM scratch\nCOPY --from=0 /t /t", *members)
    assert made.id, made
    found = tree(daemon, made.id, "t")
    assert (found["t/su"], found["t/null"], found["t/pipe"]) == ("-6755 0:0 s", "c0666 0:0", "p0644 0:0")
    assert found["t/two"] == "h0644 0:0 -> t/one"
    container = daemon.create(Image=made.id, Cmd=["x"])
    try:
        answer = daemon.request("GET", f"/containers/{container}/archive?path=/t/cap")
    finally:
        daemon.remove(container)
    assert b"security.capability" in answer.body


def test_names_of_one_file_stay_one_within_one_source(daemon: Daemon) -> None:
    members = (Member("t", None), Member("t/one", "1"), hard("t/two", "t/one"))
    made = build(daemon, "FROM scratch\nCOPY t /t\nCOPY t/* /apart/", *members)
    assert tree(daemon, made.id, "t")["t/two"] == "h0644 0:0 -> t/one"
    assert tree(daemon, made.id, "apart")["apart/two"] == "-0644 0:0 1"


def test_a_stage_keeps_owners_and_chown_changes_them(daemon: Daemon, base: str) -> None:
    words = "COPY --from=a /d /x\nCOPY --from=a --chown=bob /d /y\nCOPY --from=links /usr/lib /z"
    made = build(daemon, f"FROM links AS a\nFROM links\n{words}")
    assert made.id, made
    assert tree(daemon, made.id, "x")["x"] == "d0755 0:0"
    assert tree(daemon, made.id, "y")["y/old"] == "-0644 1000:1001 old"
    missing = build(daemon, "FROM links AS a\nFROM links\nCOPY --from=a /nope /x")
    assert missing.error == "COPY failed: stat nope: file does not exist"


@pytest.mark.parametrize("change", ["content", "name", "mode", "link", "attribute"])
def test_the_cache_knows_each_change_but_not_times(daemon: Daemon, change: str) -> None:
    salt = hashlib.sha256(change.encode()).hexdigest()
    first = [Member("s", None), Member("s/a", salt), link("s/l", "a")]
    words = "FROM scratch\nCOPY s /s"
    one = build(daemon, words, *first)
    touched = [Member("s", None, mtime=5), Member("s/a", salt, mtime=6, uid=77), link("s/l", "a")]
    assert build(daemon, words, *touched).id == one.id
    first[1] = {
        "content": Member("s/a", salt + "!"),
        "name": Member("s/b", salt),
        "mode": Member("s/a", salt, mode=0o600),
        "link": first[1],
        "attribute": Member("s/a", salt, attributes=(("user.x", "1"),)),
    }[change]
    if change == "link":
        first[2] = link("s/l", "b")
    other = build(daemon, words, *first)
    assert other.id and other.id != one.id and "Using cache" not in other.said


def test_a_pattern_that_matches_more_is_another_step(daemon: Daemon) -> None:
    words = "FROM scratch\nCOPY p* /p/"
    one = build(daemon, words, Member("p1", "pattern"))
    assert build(daemon, words, Member("p1", "pattern"), Member("q", "no matter")).id == one.id
    assert build(daemon, words, Member("p1", "pattern"), Member("p2", "pattern")).id != one.id


IGNORED = {
    "x\nDockerfile\n.dockerignore": {"w", "w/x"},
    "x\n": {"w", "w/x", "w/.dockerignore", "w/Dockerfile"},
    "*\n!x": {"w", "w/x"},
}


@pytest.mark.parametrize("text", IGNORED)
def test_of_dockerignore_the_daemon_obeys_what_clients_must_send(daemon: Daemon, text: str) -> None:
    made = build(daemon, "FROM scratch\nCOPY . /w", Member("x", "1"), Member(".dockerignore", text))
    assert set(tree(daemon, made.id, "w")) == IGNORED[text]


@pytest.mark.parametrize(
    ("status", "error", "query", "members"),
    [
        (
            500,
            "Cannot locate specified Dockerfile: nope",
            {"dockerfile": "nope"},
            (Member("Dockerfile", "FROM scratch"),),
        ),
        (500, "forbidden path outside the build context: ../x ()", {"dockerfile": "../x"}, ()),
        (500, "forbidden path outside the build context: x ()", {"dockerfile": "x"}, (link("x", "x"),)),
        (500, "forbidden path outside the build context: x/y ()", {"dockerfile": "x/y"}, (Member("x", ""),)),
        (500, "unexpected error reading Dockerfile: read x: is a directory", {"dockerfile": "x"}, (Member("x/y", ""),)),
        (500, "Cannot locate specified Dockerfile: Dockerfile", {}, ()),
        (500, "Cannot locate specified Dockerfile: Dockerfile", {}, (link("Dockerfile", "/etc/passwd"),)),
        (400, "the Dockerfile (Dockerfile) cannot be empty", {}, (Member("Dockerfile", ""),)),
    ],
)
def test_a_dockerfile_that_is_not_there(daemon: Daemon, status: int, error: str, query: dict, members: tuple) -> None:
    made = build(daemon, "", body=archive(*members), **query)
    assert (made.status, made.error) == (status, error)


def test_a_dockerfile_is_found_through_links_inside_the_context_and_in_small_letters(daemon: Daemon) -> None:
    text = "FROM scratch\nLABEL a=b"
    sent = archive(link("x", "/deep/er"), Member("deep/er/D", text))
    assert build(daemon, "", body=gzip.compress(sent), dockerfile="x/D").id
    assert build(daemon, "", body=archive(Member("dockerfile", text))).id
    assert build(daemon, "", body=b"garbage").error == "unexpected EOF"
