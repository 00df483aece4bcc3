"""Pulling from docker-registry what skopeo and umoci wrote: plain, with passwords, with TLS, and as a mirror."""

import subprocess

import pytest

from engine.daemon.api.login import check_login
from engine.daemon.images.registries import transport
from engine.daemon.tar import compression
from engine.errors import NotFound, SystemFailure, Unauthorized, Unavailable
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
    return store.pull(f"{address}/{name}", tag, None, auth, lambda line: None)


@pytest.mark.parametrize("options", [(), ("--format", "v2s2"), ("--dest-decompress",)])
def test_the_tree_is_the_one_that_umoci_unpacks(store, make_registry, layout, tmp_path, options):
    address = make_registry()
    if "--dest-decompress" in options:
        plain = tmp_path / "plain"
        layout.copy(f"dir:{plain}", *options)
        command = ["skopeo", "copy", "--quiet", "--dest-tls-verify=false", f"dir:{plain}", f"docker://{address}/made:1"]
        subprocess.run(command, check=True, capture_output=True)
    else:
        layout.copy(f"docker://{address}/made:1", "--dest-tls-verify=false", *options)
    image = pull(store, address)
    layout.step(lambda tree: None)
    assert listing(flat(store, image, tmp_path)) == listing(layout.tree)


def test_zstd_layers_are_unpacked_where_python_can_and_refused_in_words_elsewhere(store, make_registry, layout):
    address = make_registry()
    options = ("--dest-tls-verify=false", "--dest-compress-format", "zstd")
    layout.copy(f"docker://{address}/made:1", *options)
    if compression.has_zstd():
        assert len(pull(store, address).layers) == 3
    else:
        with pytest.raises(Unavailable, match="zstd"):
            pull(store, address)
        assert store.all() == []


def test_passwords_are_needed_checked_and_enough(store, make_registry, layout, tmp_path):
    (tmp_path / "htpasswd").write_text(HTPASSWD)
    address = make_registry(f"auth:\n  htpasswd:\n    realm: here\n    path: {tmp_path}/htpasswd\n")
    layout.copy(f"docker://{address}/made:1", "--dest-tls-verify=false", "--dest-creds", "user:secret")
    with pytest.raises(Unauthorized, match="no basic auth credentials"):
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
    monkeypatch.setattr("engine.daemon.images.registries.registry.is_insecure", lambda netloc, insecure: False)
    with pytest.raises(SystemFailure, match="tls: failed to verify certificate"):
        pull(store, address)
    trusted = certificate / "certs.d" / address
    trusted.mkdir(parents=True)
    (trusted / "ca.crt").write_bytes((certificate / "cert.pem").read_bytes())
    monkeypatch.setattr(transport, "CERTIFICATES", str(certificate / "certs.d"))
    assert pull(store, address).repo_tags == (f"{address}/made:1",)


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
    assert store.pull("busybox", "1", None, None, lambda line: None).repo_tags == ("busybox:1",)


def test_of_a_list_that_skopeo_copied_whole_the_hosts_platform_is_taken(store, make_registry, layout):
    address = make_registry()
    layout.copy(f"docker://{address}/made:1", "--dest-tls-verify=false")
    first = pull(store, address)
    layout.copy(f"docker://{address}/made:again", "--dest-tls-verify=false")
    assert pull(store, address, tag="again").id == first.id
    assert pull(store, address, tag=first.id).id == first.id
