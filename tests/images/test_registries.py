"""Pulling from docker-registry what skopeo and umoci wrote: plain, with passwords, with TLS, and as a mirror."""

import subprocess

import pytest

from engine.daemon.api.login import check_login
from engine.daemon.images.registry import transport
from engine.daemon.images.verbs import pull as pulling
from engine.errors import NotFound, SystemFailure, Unauthorized
from tests.images.conftest import HTPASSWD, listing, need
from tests.unit.images import made

pytestmark = pytest.mark.root


def flat(store, image, tmp_path):
    """The image's tree."""
    target = tmp_path / "flat"
    target.mkdir()
    store.copy_layers(image.layers, str(target))
    return target


def pull(store, address, name="made", tag="1", auth=None):
    return pulling.pull(store, f"{address}/{name}", tag, None, auth, lambda line: None)


def test_the_tree_is_the_one_that_umoci_unpacks(store, make_registry, layout, tmp_path):
    address = make_registry()
    layout.copy(f"docker://{address}/made:1", "--dest-tls-verify=false")
    image = pull(store, address)
    layout.step(lambda tree: None)
    assert listing(flat(store, image, tmp_path)) == listing(layout.tree)


def test_passwords_are_needed_checked_and_enough(store, make_registry, layout, tmp_path):
    (tmp_path / "htpasswd").write_text(HTPASSWD)
    address = make_registry(f"auth:\n  htpasswd:\n    realm: here\n    path: {tmp_path}/htpasswd\n")
    layout.copy(f"docker://{address}/made:1", "--dest-tls-verify=false", "--dest-creds", "user:secret")
    with pytest.raises(SystemFailure, match="no basic auth credentials"):
        pull(store, address)
    with pytest.raises(NotFound, match="pull access denied"):
        pull(store, address, auth={"username": "user", "password": "wrong"})
    assert pull(store, address, auth={"username": "user", "password": "secret"}).repo_tags
    login = {"username": "user", "password": "secret", "serveraddress": address}
    check_login(address, login, ())
    with pytest.raises(Unauthorized):
        check_login(address, {**login, "password": "wrong"}, ())


@pytest.fixture
def certificate(tmp_path):
    """A certificate for 127.0.0.1 and `registry.test` that signs itself."""
    need("openssl")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=registry.test"]
        + ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout", "key.pem", "-out", "cert.pem"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    return tmp_path


def test_a_private_authority_is_trusted_where_its_certificate_is_put_and_nowhere_else(
    store, make_registry, layout, certificate, monkeypatch
):
    tls = f"  tls: {{certificate: {certificate}/cert.pem, key: {certificate}/key.pem}}\n"
    address = make_registry(http=tls)
    layout.copy(f"docker://{address}/made:1", "--dest-tls-verify=false")
    # Loopback registries need no certificate that anybody knows; take that away to see the check.
    monkeypatch.setattr("engine.daemon.images.registry.reads.is_insecure", lambda netloc, insecure: False)
    with pytest.raises(SystemFailure, match=r"verify certificate: x509: certificate signed by unknown authority$"):
        pull(store, address)
    trusted = certificate / "certs.d" / address
    trusted.mkdir(parents=True)
    (trusted / "ca.crt").write_bytes((certificate / "cert.pem").read_bytes())
    monkeypatch.setattr(transport, "CERTIFICATES", str(certificate / "certs.d"))
    assert pull(store, address).repo_tags == (f"{address}/made:1",)


def test_a_registry_that_asks_for_a_certificate_is_shown_the_one_that_is_put_for_it(
    store, make_registry, layout, certificate, monkeypatch
):
    pair, ours = (certificate / "cert.pem", certificate / "key.pem"), certificate / "certs.d"
    address = make_registry(http=f"  tls: {{certificate: {pair[0]}, key: {pair[1]}, clientcas: [{pair[0]}]}}\n")
    (shown := ours / address).mkdir(parents=True)
    monkeypatch.setattr(transport, "CERTIFICATES", str(ours))
    with pytest.raises(SystemFailure, match=r"tls: .*CERTIFICATE"):
        pull(store, address)
    (shown / "client.cert").write_bytes(pair[0].read_bytes())
    with pytest.raises(SystemFailure, match=r"missing key client\.key for client certificate client\.cert"):
        pull(store, address)
    (shown / "client.key").write_text("nonsense")
    with pytest.raises(SystemFailure, match=f"failed to read {shown}/client.cert"):
        pull(store, address)
    (shown / "client.key").write_bytes(pair[1].read_bytes())
    layout.copy(f"docker://{address}/made:1", "--dest-tls-verify=false", f"--dest-cert-dir={shown}")
    assert pull(store, address).repo_tags == (f"{address}/made:1",)
    (shown / "client.cert").unlink()
    with pytest.raises(SystemFailure, match=r"missing client certificate client\.cert for key client\.key"):
        pull(store, address)


def test_a_loopback_registry_with_an_unknown_certificate_is_taken_as_docker_takes_it(
    store, make_registry, layout, certificate
):
    tls = f"  tls: {{certificate: {certificate}/cert.pem, key: {certificate}/key.pem}}\n"
    address = make_registry(http=tls)
    layout.copy(f"docker://{address}/made:1", "--dest-tls-verify=false")
    assert pull(store, address).repo_tags == (f"{address}/made:1",)


def test_a_registry_serves_as_the_mirror_of_docker_io(make_registry, layout, tmp_path):
    address = make_registry()
    layout.copy(f"docker://{address}/library/busybox:1", "--dest-tls-verify=false")
    (tmp_path / "mirrored").mkdir()
    store = made.store(tmp_path / "mirrored", mirrors=(f"http://{address}",))
    assert pulling.pull(store, "busybox", "1", None, None, lambda line: None).repo_tags == ("busybox:1",)


def test_a_registry_that_fetches_from_another_one_serves_as_the_mirror_of_docker_io(make_registry, layout, tmp_path):
    upstream = make_registry()
    layout.copy(f"docker://{upstream}/library/busybox:1", "--dest-tls-verify=false")
    mirror = make_registry(f"proxy:\n  remoteurl: http://{upstream}\n")
    (tmp_path / "mirrored").mkdir()
    store = made.store(tmp_path / "mirrored", mirrors=(f"http://{mirror}",))
    first = pulling.pull(store, "busybox", "1", None, None, lambda line: None)
    assert first.repo_tags == ("busybox:1",)


def test_every_tag_is_pulled_from_a_registry(store, make_registry, layout):
    address = make_registry()
    for tag in ("1", "two", "latest"):
        layout.copy(f"docker://{address}/made:{tag}", "--dest-tls-verify=false")
    pulling.pull_all(store, f"{address}/made", None, None, lambda line: None)
    (image,) = store.all()
    assert set(image.repo_tags) == {f"{address}/made:{tag}" for tag in ("1", "two", "latest")}
    with pytest.raises(NotFound):
        pulling.pull_all(store, f"{address}/nothing", None, None, lambda line: None)


def test_of_a_list_that_skopeo_copied_whole_the_hosts_platform_is_taken(store, make_registry, layout):
    address = make_registry()
    layout.copy(f"docker://{address}/made:1", "--dest-tls-verify=false")
    first = pull(store, address)
    layout.copy(f"docker://{address}/made:again", "--dest-tls-verify=false")
    assert pull(store, address, tag="again").id == first.id
    assert pull(store, address, tag=first.id).id == first.id
