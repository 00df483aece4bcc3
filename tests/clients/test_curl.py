"""curl: the API as a shell script uses it."""

import io
import json
import tarfile


def body(result, status=0):
    """The JSON that curl printed."""
    assert result.returncode == status, result
    return json.loads(result.stdout)


def post(curl, path, document=None):
    words = [] if document is None else ["-H", "Content-Type: application/json", "-d", json.dumps(document)]
    return curl("-X", "POST", *words, f"http://localhost{path}")


def test_ping_by_get_and_by_head(curl):
    assert curl("http://localhost/_ping").stdout == b"OK"
    head = curl("--head", "http://localhost/_ping").stdout.lower()
    assert head.startswith(b"http/1.1 200")
    assert b"\r\napi-version: 1." in head


def test_the_main_job(curl):
    made = body(post(curl, "/containers/create", {"Image": "busybox", "Cmd": ["sh", "-c", "echo hi; exit 3"]}))
    path = f"/containers/{made['Id']}"
    assert post(curl, f"{path}/start").returncode == 0
    assert body(post(curl, f"{path}/wait"))["StatusCode"] == 3
    assert curl(f"http://localhost{path}/logs?stdout=1").stdout == b"\x01\0\0\0\0\0\0\x03hi\n"
    assert curl("-X", "DELETE", f"http://localhost{path}").returncode == 0


def test_several_calls_share_one_connection(curl):
    result = curl("--verbose", "http://localhost/_ping", "http://localhost/_ping")
    assert result.stdout == b"OKOK"
    assert b"re-using existing connection" in result.stderr.lower()


def test_a_large_body_is_sent_after_100_continue_and_also_in_chunks(curl, tmp_path):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        large = tarfile.TarInfo("large")
        large.size = 3 << 20
        tar.addfile(large, io.BytesIO(bytes(large.size)))
    (tmp_path / "x.tar").write_bytes(archive.getvalue())
    url = "http://localhost/images/create?fromSrc=-&repo=curl/large&tag=1"
    for header in ("Expect: 100-continue", "Transfer-Encoding: chunked"):
        words = ("--verbose", "-X", "POST", "-H", header, "-H", "Content-Type: application/x-tar", "-T")
        result = curl(*words, str(tmp_path / "x.tar"), url)
        assert result.returncode == 0, result
        assert b"sha256:" in result.stdout
    assert curl("-X", "DELETE", "http://localhost/images/curl/large:1").returncode == 0


def test_an_error_is_a_status_and_a_message(curl):
    result = curl("http://localhost/containers/nope/json")
    assert (result.returncode, json.loads(result.stdout)) == (22, {"message": "No such container: nope"})


def test_http_1_0_gets_an_answer_and_the_end_of_the_connection(curl):
    assert curl("--http1.0", "http://localhost/_ping").stdout == b"OK"
