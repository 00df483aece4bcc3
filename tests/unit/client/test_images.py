"""The verbs about images: references, rows."""

import pytest

from engine.client.images import image_rows, split_reference


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


def test_an_image_has_a_row_for_each_name():
    image = {"Id": "sha256:" + "ab" * 32, "Created": 0, "Size": 1000, "RepoTags": ["a:1", "b:2"]}
    assert image_rows(image, False, 60) == [
        ("a", "1", "abababababab", "About a minute ago", "1kB"),
        ("b", "2", "abababababab", "About a minute ago", "1kB"),
    ]


def test_an_image_without_a_name_is_shown_as_none():
    image = {"Id": "sha256:ab", "Created": 0, "Size": 0, "RepoTags": None, "RepoDigests": None}
    assert image_rows(image, True, 0)[0][:3] == ("<none>", "<none>", "sha256:ab")
