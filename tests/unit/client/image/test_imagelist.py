"""`engine images`: names of images, and their fields."""

import pytest

from engine.client.image.fetch import whole_name
from engine.client.image.imagelist import image_rows
from engine.client.image.imagenames import platform_of, registry_of, split_reference
from engine.errors import Invalid


@pytest.mark.parametrize(
    ("reference", "parts"),
    [
        ("busybox", ("busybox", "latest")),
        ("busybox:1", ("busybox", "1")),
        ("r:5000/a/b", ("r:5000/a/b", "latest")),
        ("r:5000/a/b:1", ("r:5000/a/b", "1")),
        ("a@sha256:00", ("a", "sha256:00")),
    ],
)
def test_a_reference_is_split_at_its_tag_and_not_at_its_port(reference, parts):
    assert split_reference(reference) == parts


@pytest.mark.parametrize(
    ("reference", "registry", "whole"),
    [
        ("busybox", "docker.io", "docker.io/library/busybox"),
        ("a/b:1", "docker.io", "docker.io/a/b:1"),
        ("localhost/a", "localhost", "localhost/a"),
        ("r:5000/a", "r:5000", "r:5000/a"),
        ("r.example/a/b", "r.example", "r.example/a/b"),
    ],
)
def test_a_name_says_its_registry(reference, registry, whole):
    assert (registry_of(reference), whole_name(reference)) == (registry, whole)


def test_an_image_has_a_row_for_each_name():
    image = {"Id": "sha256:" + "ab" * 32, "Created": 10, "Size": 1000, "RepoTags": ["a:1", "b:2"]}
    rows = image_rows(image, False, 70)
    assert [(row["Repository"], row["Tag"]) for row in rows] == [("a", "1"), ("b", "2")]
    assert {(row["ID"], row["CreatedSince"], row["Size"]) for row in rows} == {
        ("abababababab", "About a minute ago", "1kB")
    }


def test_an_image_without_a_name_is_shown_as_none():
    image = {"Id": "sha256:ab", "Created": 0, "Size": 0, "RepoTags": None, "RepoDigests": None}
    (row,) = image_rows(image, True, 0)
    assert (row["Repository"], row["Tag"], row["ID"], row["CreatedSince"]) == ("<none>", "<none>", "sha256:ab", "N/A")


def test_a_digest_is_that_of_the_rows_name():
    image = {"Id": "sha256:ab", "Created": 1, "Size": 0, "RepoTags": ["a:1"], "RepoDigests": ["a@sha256:cd"]}
    assert image_rows(image, True, 0)[0]["Digest"] == "sha256:cd"
    assert image_rows({**image, "RepoTags": []}, True, 0)[0]["Repository"] == "a"


def test_a_platform_is_json():
    assert platform_of("linux/arm64/v8") == '{"os":"linux","architecture":"arm64","variant":"v8"}'
    assert platform_of("") == ""
    for text in ('linux/"', "a/b/c/d", "/"):
        with pytest.raises(Invalid, match="invalid platform"):
            platform_of(text)
