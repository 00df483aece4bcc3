"""docker save, load, import and export, and the same by the SDK: every option, by files and by pipes."""

import base64
import gzip
import io
import json
import tarfile
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.harness import web
from tests.harness.registry import architecture

OTHER = "arm64" if architecture() == "amd64" else "amd64"


@pytest.fixture(autouse=True)
def only_busybox(daemon):
    """Whatever image a test makes is taken away."""
    yield
    for image in daemon.request("GET", "/images/json").json():
        if image["RepoTags"] != ["busybox:latest"]:
            for name in (*(tag for tag in image["RepoTags"] or () if tag != "busybox:latest"), ""):
                if name or "busybox:latest" not in (image["RepoTags"] or ()):
                    daemon.request("DELETE", f"/images/{name or image['Id']}?force=1", checked=False)


@pytest.fixture
def made(daemon, busybox):
    """An image `made:1` of one file; its id."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as tar:
        info = tarfile.TarInfo("hello")
        info.size = 5
        tar.addfile(info, io.BytesIO(b"hello"))
    return daemon.import_image(sink.getvalue(), "made:1", ["CMD hello"])


def ok(done) -> str:
    """What a command printed, which went well."""
    assert done.returncode == 0, done
    return done.stdout.decode()


def tags(data: bytes) -> list[list[str] | None]:
    """The names of each image in an archive."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return [entry["RepoTags"] for entry in json.load(tar.extractfile("manifest.json"))]


def test_save_and_load_by_files(docker, made, tmp_path):
    path = str(tmp_path / "a.tar")
    assert ok(docker("save", "-o", path, "made:1")) == ""
    assert tags(Path(path).read_bytes()) == [["made:1"]]
    ok(docker("rmi", "made:1"))
    assert ok(docker("load", "-i", path)) == "Loaded image: made:1\n"
    assert ok(docker("image", "ls", "-q", "--no-trunc", "made")).strip() == made
    assert ok(docker("load", "--quiet", "--input", path)) == "Loaded image: made:1\n"


def test_save_and_load_by_pipes(docker, made):
    saved = docker("save", "made:1")
    assert saved.returncode == 0
    ok(docker("rmi", "made:1"))
    assert ok(docker("load", input=saved.stdout)) == "Loaded image: made:1\n"
    assert ok(docker("load", input=gzip.compress(saved.stdout, 1))) == "Loaded image: made:1\n"


def test_save_of_several_images_and_of_a_repository(docker, made, tmp_path):
    path = tmp_path / "a.tar"
    ok(docker("image", "save", "--output", str(path), "made:1", "busybox:latest"))
    assert sorted(tags(path.read_bytes())) == [["busybox:latest"], ["made:1"]]
    ok(docker("tag", "made:1", "made:2"))
    ok(docker("image", "save", "--output", str(path), "made"))
    assert tags(path.read_bytes()) == [["made:1", "made:2"]]
    ok(docker("rmi", "made:1", "made:2"))
    assert ok(docker("load", "-i", str(path))) == "Loaded image: made:1\nLoaded image: made:2\n"


def test_save_by_id_gives_an_image_without_a_name(docker, made, tmp_path):
    path = str(tmp_path / "a.tar")
    ok(docker("save", "-o", path, made))
    ok(docker("rmi", "made:1"))
    assert ok(docker("load", "-i", path)) == f"Loaded image ID: {made}\n"
    assert ok(docker("image", "ls", "-q", "--no-trunc", "--filter", "dangling=true")).strip() == made


def test_save_and_load_of_one_platform(docker, made, tmp_path):
    path = str(tmp_path / "a.tar")
    ok(docker("save", "--platform", f"linux/{architecture()}", "-o", path, "made:1"))
    assert ok(docker("load", "--platform", f"linux/{architecture()}", "-i", path)) == "Loaded image: made:1\n"
    refused = docker("load", "--platform", f"linux/{OTHER}", "-i", path)
    assert refused.returncode == 1 and b"doesn't provide the requested platform" in refused.stderr
    refused = docker("save", "--platform", f"linux/{OTHER}", "-o", path, "made:1")
    assert refused.returncode == 1 and b"does not provide the specified platform" in refused.stderr


def test_what_cannot_be_saved_or_loaded_is_said(docker, tmp_path):
    refused = docker("save", "-o", str(tmp_path / "a.tar"), "nosuch")
    assert (refused.returncode, refused.stderr) == (
        1,
        b"Error response from daemon: No such image: nosuch:latest\n",
    )
    refused = docker("load", input=b"garbage")
    assert (refused.returncode, refused.stderr) == (1, b"unexpected EOF\n")


def test_progress_is_drawn_where_there_is_somebody_to_see_it(daemon, made):
    """`docker load` asks for it on a terminal alone; the lines are those that its drawing reads."""
    saved = daemon.request("GET", "/images/made:1/get", checked=False).body
    daemon.request("DELETE", "/images/made:1")
    answer = daemon.request("POST", "/images/load?quiet=0", saved, {"Content-Type": "application/x-tar"})
    *layers, last = answer.lines
    assert last == {"stream": "Loaded image: made:1\n"}
    assert layers and all(line["status"] == "Loading layer" and len(line["id"]) == 12 for line in layers)
    detail = layers[-1]["progressDetail"]
    assert detail["current"] == detail["total"] > 0


def test_export_and_import_by_files_and_pipes(docker, made, tmp_path):
    container = ok(docker("create", "--network", "none", "made:1", "x")).strip()
    path = str(tmp_path / "root.tar")
    ok(docker("export", "-o", path, container))
    piped = docker("export", container)
    ok(docker("rm", container))
    with tarfile.open(path) as tar:
        assert "hello" in tar.getnames()
    changes = ("--change", "CMD ['x']", "-c", "ENV A=b", "-m", "why", "--platform", f"linux/{OTHER}")
    first = ok(docker("import", *changes, path, "made:file")).strip()
    second = ok(docker("import", "-", "made:pipe", input=piped.stdout)).strip()
    assert first.startswith("sha256:") and second.startswith("sha256:")
    (shown,) = json.loads(ok(docker("image", "inspect", "made:file")))
    assert (shown["Architecture"], shown["Comment"], shown["Config"]["Env"]) == (OTHER, "why", ["A=b"])
    (shown,) = json.loads(ok(docker("image", "inspect", "made:pipe")))
    assert shown["Comment"] == "Imported from -"


def test_import_from_the_web(docker, daemon, served):
    url = served({"/root.tar": (200, {}, _tar()), "/moved": (302, {"Location": "/root.tar"}, b"")})
    first = docker("import", "-m", "", f"{url}/root.tar", "made:web")
    assert first.stdout.startswith(f"Downloading from {url}/root.tar\n".encode()), first
    (shown,) = json.loads(ok(docker("image", "inspect", "made:web")))
    assert shown["Comment"] == f"Imported from {url}/root.tar"
    ok(docker("import", f"{url}/moved", "made:moved"))
    # Without a scheme, and without a name.
    answer = daemon.request("POST", f"/images/create?fromSrc={url.removeprefix('http://')}/root.tar")
    assert answer.lines[-1]["status"].startswith("sha256:")


@pytest.mark.parametrize("path", ["/a%20b/r%C3%A9", "/a%2520b/r%25C3%25A9"])
def test_import_of_a_path_with_escapes(daemon, busybox, served, path):
    """Escaped once for the path, or once more for the request's parameter: dockerd asks for the same file."""
    url = served({"/a%20b/r%C3%A9": (200, {}, _tar())})
    answer = daemon.request("POST", f"/images/create?fromSrc={url}{path}")
    assert answer.status == 200, answer
    assert answer.lines[0]["status"] == f"Downloading from {url}/a%20b/r%C3%A9"


def test_import_with_the_credentials_of_the_url(daemon, busybox, served, monkeypatch):
    """Nobody else's are sent."""
    seen = []

    def page(self):
        seen.append(self.headers.get("Authorization"))
        self.send_error(404)

    monkeypatch.setattr(web._Handler, "do_GET", page)
    url = served({})
    for place in (url.replace("://", "://us%40er:p%3Aw@"), url):
        answer = daemon.request("POST", f"/images/create?fromSrc={quote(place)}/x")
        assert answer.status == 404, answer
    assert seen == [f"Basic {base64.b64encode(b'us@er:p:w').decode()}", None]


def test_import_from_the_web_that_fails_is_a_plain_error(docker, daemon, served):
    url = served({"/gone": (404, {}, b"nothing\n"), "/round": (302, {"Location": "/round"}, b"")})
    refused = docker("import", f"{url}/gone")
    said = f"Error response from daemon: failed to GET {url}/gone with status 404 Not Found: nothing\n"
    assert (refused.returncode, refused.stderr.decode()) == (1, said)
    for path, text in (("/round", "stopped after 10 redirects"),):
        answer = daemon.request("POST", f"/images/create?fromSrc={url}{path}")
        assert answer.status == 500 and text in answer.json()["message"]
    answer = daemon.request("POST", "/images/create?fromSrc=http://127.0.0.1:1/x")
    assert answer.json()["message"] == ('Get "http://127.0.0.1:1/x": dial tcp 127.0.0.1:1: connect: connection refused')


def test_the_sdk_saves_loads_and_imports(sdk, made, tmp_path):
    image = sdk.images.get("made:1")
    data = b"".join(image.save(named=True))
    assert tags(data) == [["made:1"]]
    assert tags(b"".join(image.save())) == [None]
    image.remove()
    (back,) = sdk.images.load(data)
    assert (back.id, back.tags) == (made, ["made:1"])
    several = b"".join(sdk.api.get_image("busybox:latest"))
    assert tags(several) == [["busybox:latest"]]
    (tmp_path / "root.tar").write_bytes(_tar())
    sdk.api.import_image_from_file(str(tmp_path / "root.tar"), "made", "sdk")
    sdk.api.import_image_from_data(_tar(), "made", "data", changes=["ENV A=b"])
    assert sdk.images.get("made:data").attrs["Config"]["Env"] == ["A=b"]


def _tar() -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("empty"))
    return sink.getvalue()
