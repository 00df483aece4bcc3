"""Loading what other people's tools saved."""

import gzip
import json
import subprocess

import pytest

from engine.daemon.images.verbs import load as loading
from tests.images.conftest import listing
from tests.images.test_registries import flat

pytestmark = pytest.mark.root


def load(store, path):
    with open(path, "rb", buffering=0) as file:
        return loading.load(store, file, lambda line: None)


@pytest.mark.parametrize("kind", ["docker-archive", "oci-archive"])
def test_archives_of_skopeo_give_the_tree_that_umoci_unpacks(store, layout, tmp_path, kind):
    layout.copy(f"{kind}:{tmp_path}/a.tar:docker.io/library/made:1")
    (image,) = load(store, tmp_path / "a.tar")
    layout.step(lambda tree: None)
    assert image.repo_tags == ("made:1",)
    assert listing(flat(store, image, tmp_path)) == listing(layout.tree)


def test_a_layout_of_umoci_is_loaded_with_the_digests_it_has(store, layout, tmp_path):
    subprocess.run(["tar", "-C", layout.path, "-czf", tmp_path / "a.tar.gz", "."], check=True)
    (image,) = load(store, tmp_path / "a.tar.gz")
    index = json.loads((layout.path / "index.json").read_text())
    assert image.id == index["manifests"][0]["digest"]


def test_a_compressed_archive_of_several_names_is_loaded(store, layout, tmp_path):
    layout.copy(f"docker-archive:{tmp_path}/a.tar:made:1", "--additional-tag", "made:2")
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress((tmp_path / "a.tar").read_bytes(), 1))
    (image,) = load(store, tmp_path / "a.tar.gz")
    assert image.repo_tags == ("made:1", "made:2")


def test_what_is_loaded_twice_is_there_once(store, layout, tmp_path):
    layout.copy(f"docker-archive:{tmp_path}/a.tar:made:1")
    (first,), (second,) = (load(store, tmp_path / "a.tar") for _ in range(2))
    assert (first.id, first.layers) == (second.id, second.layers)
    assert store.count() == 1
