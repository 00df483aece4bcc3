"""Tagging: one more name of an image, taken from another one, told, or refused in docker's words."""

import pytest

from engine.daemon.images.reference import Reference
from engine.daemon.images.verbs import remove, tag
from engine.errors import Invalid, NotFound
from tests.unit.images.several import import_
from tests.unit.images.test_platforms_here import NOBODY


def test_a_tag_is_a_name_more_and_leaves_another_image_without(store, told):
    one, two = import_(store, "one"), import_(store, "two", b"y")
    assert tag.tag(store, "one", "two", "").id == one.id
    assert store.find("two").id == one.id and store.find(two.id).names == ()
    tag.tag(store, two.id, "localhost:5000/a/b", "v1")
    assert store.find("localhost:5000/a/b:v1").id == two.id
    assert told[-2:] == [("tag", "two:latest"), ("tag", "localhost:5000/a/b:v1")]
    tag.tag(store, "one", "one", "latest")
    assert store.find("one").repo_tags == ("one:latest", "two:latest")


@pytest.mark.parametrize(
    ("repo", "name", "words"),
    [
        ("BAD", "v1", r"repository name \(library/BAD\) must be lowercase"),
        ("a", "b@d", "invalid tag format"),
        ("", "", "invalid reference format"),
        ("sha256", "x", "ambiguous tag"),
        ("a@sha256:" + "0" * 64, "", "digest reference"),
        ("a" * 64, "", "64-byte hexadecimal"),
        ("../a", "", "invalid reference format"),
        ("a\n", "", "invalid reference format"),
        ("x" * 256, "", "255"),
        ("a", "x" * 129, "invalid tag format"),
    ],
)
def test_a_bad_name_is_refused_before_the_image_is_looked_for(store, repo, name, words):
    with pytest.raises(Invalid, match=words):
        tag.tag(store, "nope", repo, name)


def test_an_image_that_has_gone_meanwhile_gets_no_name(store):
    image = import_(store, "one")
    remove.remove(store, "one", False, False, NOBODY)
    with pytest.raises(NotFound):
        store.tag(image, Reference.parse("two"))
