"""engine.daemon.api.handlers.images and progress: the image endpoints over a store that is made up."""

import base64
import json
import threading
from urllib.parse import quote

import pytest

from engine.daemon.api.dispatch import Dispatcher
from engine.daemon.api.routes import ROUTES
from engine.daemon.api.streams import ClientGone
from engine.daemon.images.verbs import import_, listing, load, pull, remove
from engine.errors import Conflict, Invalid, NotFound, SystemFailure
from tests.harness.parts import Parts, image, settings

AUTH = base64.urlsafe_b64encode(b'{"username":"u","password":"p"}').decode()


class Store:
    """Records what the verbs are asked of it; `error` is raised after `lines` were told."""

    def __init__(self, lines=(), error=None):
        self.lines = lines
        self.error = error
        self.calls = []

    def _work(self, call, progress):
        self.calls.append(call)
        for line in self.lines:
            progress(line)
        if self.error:
            raise self.error
        return image(id="sha256:abc")

    def pull(self, reference, tag, platform, auth, progress, gone):
        assert not gone()
        return self._work(("pull", reference, tag, platform, auth), progress)

    def pull_all(self, reference, platform, auth, progress, gone):
        assert not gone()
        return self._work(("pull all", reference, platform, auth), progress)

    def import_rootfs(self, stream, repo, tag, message, changes, platform):
        return self._work(("import", stream.read(), repo, tag, message, changes, platform), None)

    def load(self, stream, progress, wanted):
        return self._work(("load", stream.read()), progress)

    def images_json(self, filters, everything, shared_size, manifests, used_by, identity):
        self.calls.append(("list", filters, everything, shared_size, manifests, identity, used_by("sha256:abc")))
        return [{"Id": "sha256:abc", "Size": 3, "Containers": 2, "RepoTags": [], "RepoDigests": []}]

    def find(self, name, platform):
        if name == "nope":
            raise NotFound("No such image: nope:latest")
        return (name, platform)

    def inspect_json(self, image, manifests, used_by, single):
        return {"Id": image[0], "Size": 3, "Platform": image[1], "Manifests": manifests, "Single": single}

    def remove(self, ref, force, noprune, used_by, platforms):
        self.calls.append(("remove", ref, force, noprune, platforms))
        if self.error:
            raise self.error
        return [{"Untagged": ref}]


class Containers:
    """A roster in which every image has a user."""

    def using(self, image_id):
        return [f"user of {image_id}"]


def method(name):
    return lambda store, *rest, **named: getattr(store, name)(*rest, **named)


VERBS = [
    (pull, "pull"),
    (pull, "pull_all"),
    (import_, "import_rootfs"),
    (load, "load"),
    (listing, "images_json"),
    (listing, "inspect_json"),
    (remove, "remove"),
]


@pytest.fixture
def serve(connect, monkeypatch):
    """A client of the real routes over a store, whose methods stand for the verbs."""
    for module, name in VERBS:
        monkeypatch.setattr(module, name, method(name))

    def make(store):
        return connect(
            Dispatcher(Parts(images=store, containers=Containers(), settings=settings(), storage="overlayfs"), ROUTES)
        )

    return make


def lines(body: bytes) -> list[dict]:
    assert not body or body.endswith(b"\r\n")
    return [json.loads(line) for line in body.splitlines()]


def post(client, target, body=b"", fields=""):
    client.send(f"POST {target} HTTP/1.1\r\n{fields}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    status, headers, data = client.answer()
    return status, headers, data


def test_a_pull_tells_its_progress_in_lines(serve):
    store = Store([{"status": "Pulling from a/b", "id": "t"}, {"status": "Status: done"}])
    client = serve(store)
    target = "/v1.54/images/create?fromImage=a/b&tag=t&platform=linux/arm64"
    status, headers, data = post(client, target, fields=f"X-Registry-Auth: {AUTH}\r\n")
    assert (status, headers["content-type"], headers["transfer-encoding"]) == (200, "application/json", "chunked")
    assert lines(data) == store.lines
    assert store.calls == [("pull", "a/b", "t", "linux/arm64", {"username": "u", "password": "p"})]
    assert client.ask("GET", "/_ping")[0] == 200


def test_a_platform_means_nothing_before_1_32(serve):
    store = Store()
    assert post(serve(store), "/v1.31/images/create?fromImage=a:1&platform=linux/arm64")[::2] == (200, b"")
    assert store.calls == [("pull", "a:1", "", None, None)]


@pytest.mark.parametrize("name", ["a/b", "a/b:"])
def test_without_a_tag_every_tag_is_pulled(serve, name):
    store = Store()
    assert post(serve(store), f"/images/create?fromImage={name}&platform=linux/arm64")[0] == 200
    assert store.calls == [("pull all", "a/b", "linux/arm64", None)]


def test_a_pull_that_fails_before_its_first_line_is_an_error(serve):
    status, _, data = post(serve(Store(error=NotFound("no such manifest"))), "/images/create?fromImage=a&tag=1")
    assert (status, json.loads(data)) == (404, {"message": "no such manifest"})


def test_a_pull_that_fails_later_ends_with_an_error_line(serve):
    client = serve(Store([{"status": "a"}], SystemFailure("connection reset")))
    status, _, data = post(client, "/images/create?fromImage=a&tag=1")
    assert status == 200
    assert lines(data) == [
        {"status": "a"},
        {"error": "connection reset", "errorDetail": {"message": "connection reset"}},
    ]
    assert client.ask("GET", "/_ping")[0] == 200


def test_a_pull_with_an_auth_header_that_cannot_be_read_asks_without_credentials(serve):
    store = Store()
    status, _, _ = post(serve(store), "/images/create?fromImage=a:1", fields="X-Registry-Auth: %%%\r\n")
    assert status == 200
    assert store.calls == [("pull", "a:1", "", None, None)]


def test_a_pull_ends_when_its_client_hangs_up(serve):
    ended = threading.Event()

    class Endless(Store):
        def pull(self, reference, tag, platform, auth, progress, gone):
            try:
                while True:
                    progress({"status": "x" * 1000})
            except ClientGone:
                ended.set()
                raise

    client = serve(Endless())
    client.send(b"POST /images/create?fromImage=a&tag=1 HTTP/1.1\r\n\r\n")
    client.head()
    client.socket.close()
    assert ended.wait(10)


def test_an_import_streams_the_body_and_ends_with_the_id(serve):
    store = Store()
    target = "/images/create?fromSrc=-&repo=r&tag=t&changes=CMD+a&changes=ENV+b"
    status, _, data = post(serve(store), target, b"tar bytes", "Content-Type: application/x-tar\r\n")
    assert (status, lines(data)) == (200, [{"status": "sha256:abc"}])
    assert store.calls == [("import", b"tar bytes", "r", "t", "Imported from -", ["CMD a", "ENV b"], None)]


def test_an_import_keeps_the_message_it_is_given(serve):
    store = Store()
    post(serve(store), "/images/create?fromSrc=-&message=mine", b"x")
    assert store.calls[0][4] == "mine"


def test_an_import_whose_body_is_cut_short_is_an_error(serve):
    client = serve(Store())
    client.send(b"POST /images/create?fromSrc=- HTTP/1.1\r\nContent-Length: 100\r\n\r\nabc")
    client.finish_sending()
    status, _, data = client.answer()
    assert (status, json.loads(data)) == (400, {"message": "unexpected EOF"})


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ("fromSrc=http://127.0.0.1:1/y.tar", 500, 'Get "http://127.0.0.1:1/y.tar": dial tcp 127.0.0.1:1: connect'),
        ("", 500, 'Get "http:": http: no Host in request URL'),
    ],
)
def test_an_image_comes_from_a_registry_or_the_body(serve, query, status, text):
    got, _, data = post(serve(Store()), f"/images/create?{query}")
    assert got == status
    assert text in json.loads(data)["message"]


def test_what_is_wrong_with_a_loaded_archive_is_told_as_a_line(serve):
    """Transcript 223."""
    client = serve(Store(error=Invalid("unexpected EOF")))
    status, headers, data = post(client, "/images/load", b"garbage", "Content-Type: application/x-tar\r\n")
    assert (status, headers["content-type"]) == (200, "application/json")
    assert lines(data) == [{"error": "unexpected EOF", "errorDetail": {"message": "unexpected EOF"}}]


@pytest.mark.parametrize(("query", "count"), [("", 1), ("?quiet=1", 1), ("?quiet=0", 2)])
def test_a_quiet_load_tells_only_what_was_loaded(serve, query, count):
    store = Store([{"status": "Loading layer", "progressDetail": {}, "id": "a"}, {"stream": "Loaded image: a\n"}])
    assert lines(post(serve(store), f"/images/load{query}", b"tar")[2]) == store.lines[-count:]


def test_images_are_listed_with_what_was_asked(serve):
    store = Store()
    client = serve(store)
    target = "/images/json?all=1&shared-size=1&manifests=1&filters=%7B%22label%22%3A%5B%22a%22%5D%7D"
    shown = {"Id": "sha256:abc", "Size": 3, "Containers": 2, "RepoTags": [], "RepoDigests": []}
    assert client.ask("GET", f"{target}&identity=1")[2] == [shown]
    older = {**shown, "VirtualSize": 3, "Containers": -1}
    older.update(RepoTags=["<none>:<none>"], RepoDigests=["<none>@<none>"])
    assert client.ask("GET", "/v1.30/images/json?filter=b*&manifests=1&shared-size=1")[2] == [older]
    users = ["user of sha256:abc"]
    assert store.calls == [
        ("list", {"label": ("a",)}, True, True, True, True, users),
        ("list", {"reference": ("b*",)}, False, False, False, False, users),
    ]
    refused = client.ask("GET", "/images/json?identity=1")
    assert refused[::2] == (400, {"message": "conflicting options: identity requires manifests=1"})


def test_an_image_is_inspected_by_its_whole_name(serve):
    client = serve(Store())
    shown = {"Id": "localhost:5000/a/b:c", "Size": 3, "Platform": "linux/arm64"}
    shown.update(Manifests=False, Single=True)
    platform = quote('{"os":"linux","architecture":"arm64"}')
    assert client.ask("GET", f"/images/localhost:5000/a/b:c/json?platform={platform}")[2] == shown
    assert client.ask("GET", "/images/a/json?platform=linux/arm64")[0] == 400
    assert client.ask("GET", f"/images/a/json?manifests=1&platform={platform}")[0] == 400
    assert client.ask("GET", "/v1.48/images/a/json?platform=x")[2]["Platform"] is None
    assert client.ask("GET", "/images/nope/json")[::2] == (404, {"message": "No such image: nope:latest"})


def test_an_image_is_removed_or_the_conflict_told(serve):
    store = Store()
    client = serve(store)
    assert client.ask("DELETE", "/images/a/b:c?force=1&noprune=true")[::2] == (200, [{"Untagged": "a/b:c"}])
    asked = {"os": "linux", "architecture": "arm64"}, {"os": "linux", "architecture": "arm", "variant": "v7"}
    both = "&".join(f"platforms={quote(json.dumps(one))}" for one in asked)
    assert client.ask("DELETE", f"/images/a?force=1&{both}")[0] == 200
    assert client.ask("DELETE", f"/v1.49/images/a?{both}")[0] == 200
    assert store.calls == [
        ("remove", "a/b:c", True, True, []),
        ("remove", "a", True, False, ["linux/arm64", "linux/arm/v7"]),
        ("remove", "a", False, False, []),
    ]
    assert client.ask("DELETE", "/images/a?platforms=linux")[0] == 400
    store.error = Conflict("image is being used")
    assert client.ask("DELETE", "/images/a")[::2] == (409, {"message": "image is being used"})
