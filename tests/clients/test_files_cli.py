"""docker cp, diff, export, commit and import from the real CLI."""

import io
import tarfile

import pytest

from tests.clients.cli import said
from tests.harness.listening import until

pytestmark = pytest.mark.root


@pytest.fixture
def named(docker, request):
    """A container's name that is gone after the test."""
    name = f"files-{abs(hash(request.node.name)):x}"
    yield name
    docker("rm", "-f", "-v", name)


@pytest.fixture(params=["running", "stopped"])
def there(request, docker, named):
    """A container with files, a volume and a bind, running or stopped."""
    script = (
        "mkdir -p /t/d/e && echo file > /t/f && echo deep > /t/d/e/g && ln -s f /t/link && ln -s d /t/dlink;"
        "echo v > /v/in; echo ready; sleep 1000"
    )
    said(docker("run", "-d", "--name", named, "--network", "none", "-v", "/v", "busybox", "sh", "-c", script))
    said(docker("exec", named, "sh", "-c", "until [ -s /v/in ]; do sleep 0.02; done"))
    if request.param == "stopped":
        said(docker("kill", named))
        said(docker("wait", named))
    return named


def inside(docker, container, path):
    """A file's contents, by docker cp to a stream."""
    with tarfile.open(fileobj=io.BytesIO(docker("cp", f"{container}:{path}", "-").stdout)) as archive:
        return archive.extractfile(archive.getmembers()[0]).read()


def test_a_file_is_copied_out(docker, there, tmp_path):
    said(docker("cp", f"{there}:/t/f", str(tmp_path / "new")))
    assert (tmp_path / "new").read_text() == "file\n"
    said(docker("cp", f"{there}:/t/f", str(tmp_path)))
    assert (tmp_path / "f").read_text() == "file\n"


def test_a_directory_is_copied_out(docker, there, tmp_path):
    said(docker("cp", f"{there}:/t/d", str(tmp_path)))
    assert (tmp_path / "d" / "e" / "g").read_text() == "deep\n"
    said(docker("cp", f"{there}:/t/d", str(tmp_path / "other")))
    assert (tmp_path / "other" / "e" / "g").read_text() == "deep\n"
    said(docker("cp", f"{there}:/t/d/.", str(tmp_path)))
    assert (tmp_path / "e" / "g").read_text() == "deep\n"


def test_a_link_is_copied_as_a_link_or_followed(docker, there, tmp_path):
    said(docker("cp", f"{there}:/t/link", str(tmp_path / "as-link")))
    assert (tmp_path / "as-link").is_symlink()
    said(docker("cp", "-L", f"{there}:/t/link", str(tmp_path / "followed")))
    assert (tmp_path / "followed").read_text() == "file\n" and not (tmp_path / "followed").is_symlink()
    said(docker("cp", "-L", f"{there}:/t/dlink", str(tmp_path / "tree")))
    assert (tmp_path / "tree" / "e" / "g").read_text() == "deep\n"


def test_a_file_is_copied_in(docker, there, tmp_path):
    source = tmp_path / "s"
    source.write_text("mine")
    for target, found in (("/t/d", "/t/d/s"), ("/t/d/name", "/t/d/name"), ("/t/f", "/t/f"), ("/t/dlink/", "/t/d/s")):
        said(docker("cp", str(source), f"{there}:{target}"))
        assert inside(docker, there, found) == b"mine"


def test_a_link_inside_is_followed_when_it_is_the_target(docker, there, tmp_path):
    source = tmp_path / "s"
    source.write_text("through")
    said(docker("cp", str(source), f"{there}:/t/link"))
    assert inside(docker, there, "/t/f") == b"through"


def test_a_directory_is_copied_in(docker, there, tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c").write_text("c")
    (tmp_path / "a" / "l").symlink_to("../../../../etc/passwd")
    said(docker("cp", str(tmp_path / "a"), f"{there}:/t"))
    assert inside(docker, there, "/t/a/b/c") == b"c"
    said(docker("cp", str(tmp_path / "a"), f"{there}:/t/new"))
    assert inside(docker, there, "/t/new/b/c") == b"c"
    said(docker("cp", f"{tmp_path}/a/.", f"{there}:/t/d"))
    assert inside(docker, there, "/t/d/b/c") == b"c"


def test_a_stream_is_copied_in_and_out(docker, there):
    whole = docker("cp", f"{there}:/t/d", "-").stdout
    with tarfile.open(fileobj=io.BytesIO(whole)) as archive:
        assert archive.getnames() == ["d", "d/e", "d/e/g"]
    said(docker("cp", "-", f"{there}:/tmp", input=whole))
    assert inside(docker, there, "/tmp/d/e/g") == b"deep\n"


def test_a_volume_is_read_and_written(docker, there, tmp_path):
    assert inside(docker, there, "/v/in") == b"v\n"
    (tmp_path / "s").write_text("into")
    said(docker("cp", str(tmp_path / "s"), f"{there}:/v/in"))
    said(docker("start", there))
    # A container that was stopped begins with writing that file anew.
    until(lambda: inside(docker, there, "/v/in") in (b"into", b"v\n"))


def test_archive_mode_gives_to_the_containers_user(docker, named, tmp_path):
    said(docker("run", "-d", "--name", named, "--network", "none", "-u", "33:34", "busybox", "sleep", "1000"))
    (tmp_path / "s").write_text("x")
    said(docker("cp", "-a", str(tmp_path / "s"), f"{named}:/tmp/owned"))
    assert said(docker("exec", named, "stat", "-c", "%u:%g", "/tmp/owned")) == "33:34\n"


@pytest.mark.parametrize(
    ("source", "target", "text"),
    [
        ("{c}:/t/nope", "{d}", b"Could not find the file /t/nope in container"),
        ("{c}:/t/d", "{d}/file", b"cannot copy directory"),
        ("{d}/nope", "{c}:/t", b"no such file or directory"),
        ("{d}/file", "{c}:/t/nope/x", b"Could not find the file /t/nope in container"),
        ("{d}", "{c}:/t/f", b"cannot copy directory"),
        ("{d}/file", "{c}:/t/f/", b"no such directory"),
    ],
)
def test_what_cannot_be_copied_is_told(docker, there, tmp_path, source, target, text):
    (tmp_path / "file").write_text("x")
    result = docker("cp", *(word.format(c=there, d=tmp_path) for word in (source, target)))
    assert result.returncode == 1 and text in result.stderr, result


def test_diff_lists_the_changes(docker, there):
    lines = said(docker("diff", there)).splitlines()
    assert lines == ["A /t", "A /t/d", "A /t/d/e", "A /t/d/e/g", "A /t/dlink", "A /t/f", "A /t/link", "A /v"]


def test_export_and_import_are_a_round(docker, there, tmp_path):
    said(docker("export", "-o", str(tmp_path / "root.tar"), there))
    with tarfile.open(tmp_path / "root.tar") as archive:
        assert {"t/d/e/g", "bin/busybox", "v"} <= set(archive.getnames())
        assert "v/in" not in archive.getnames()
    said(docker("import", "-c", 'CMD ["cat", "/t/d/e/g"]', str(tmp_path / "root.tar"), "round"))
    try:
        assert said(docker("run", "--rm", "--network", "none", "round")) == "deep\n"
    finally:
        docker("rmi", "round")


def test_commit_makes_an_image_that_runs(docker, there):
    words = ["-m", "why", "-a", "who", "-c", "ENV X=1", "-c", 'CMD ["sh", "-c", "cat /t/f; echo $X"]']
    identifier = said(docker("commit", *words, there, "committed:1")).strip()
    try:
        assert said(docker("run", "--rm", "--network", "none", "committed:1")) == "file\n1\n"
        assert said(docker("images", "-q", "--no-trunc", "committed")).strip() == identifier
        shown = said(docker("image", "inspect", "-f", "{{.Author}} {{.Comment}}", "committed:1"))
        assert shown == "who why\n"
    finally:
        docker("rmi", "-f", "committed:1")
