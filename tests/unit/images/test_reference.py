"""References: docker's grammar, its defaults and its words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.daemon.images.reference import Reference, check_digest
from engine.errors import Invalid

DIGEST = "sha256:" + "ab" * 32


@pytest.mark.parametrize(
    ("text", "canonical", "familiar"),
    [
        ("busybox", "docker.io/library/busybox", "busybox"),
        ("busybox:1.36", "docker.io/library/busybox:1.36", "busybox:1.36"),
        ("docker.io/busybox", "docker.io/library/busybox", "busybox"),
        ("index.docker.io/a/b:c", "docker.io/a/b:c", "a/b:c"),
        ("rec/img:v1", "docker.io/rec/img:v1", "rec/img:v1"),
        ("localhost/x", "localhost/x", "localhost/x"),
        ("localhost:5000/x:latest", "localhost:5000/x:latest", "localhost:5000/x:latest"),
        ("[::1]:5000/x", "[::1]:5000/x", "[::1]:5000/x"),
        ("Host/x", "Host/x", "Host/x"),
        ("a__b/c-d.e", "docker.io/a__b/c-d.e", "a__b/c-d.e"),
        (f"quay.io/a/b:t@{DIGEST}", f"quay.io/a/b:t@{DIGEST}", f"quay.io/a/b:t@{DIGEST}"),
        ("docker.io/library/a/b", "docker.io/library/a/b", "library/a/b"),
    ],
)
def test_a_reference_is_taken_apart_and_put_together(text, canonical, familiar):
    reference = Reference.parse(text)
    assert (reference.canonical, reference.familiar) == (canonical, familiar)
    assert Reference.parse(reference.familiar) == reference


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("BAD", "invalid reference format: repository name (library/BAD) must be lowercase"),
        ("BAD::ref", "invalid reference format: repository name (library/BAD) must be lowercase"),
        ("", "invalid reference format"),
        ("a:", "invalid reference format"),
        ("a@", "invalid reference format"),
        ("a b", "invalid reference format"),
        ("a\n", "invalid reference format"),
        ("../x", "invalid reference format"),
        ("a/../b", "invalid reference format"),
        ("a//b", "invalid reference format"),
        ("x" * 300, "repository name must not be more than 255 characters"),
        ("x" * 3000, "invalid reference format"),
        ("a@sha256:abc", "invalid reference format"),
        ("a@md5:" + "ab" * 16, "unsupported digest algorithm"),
        ("ab" * 32, f"invalid repository name ({'ab' * 32}), cannot specify 64-byte hexadecimal strings"),
    ],
)
def test_what_is_no_reference_is_refused_in_dockers_words(text, message):
    with pytest.raises(Invalid) as refused:
        Reference.parse(text)
    assert str(refused.value) == message


def test_a_tag_of_the_wrong_form_is_refused():
    with pytest.raises(Invalid, match=r"^invalid tag format$"):
        Reference.parse("a").with_tag("b@d")


def test_latest_is_the_tag_where_there_is_none():
    assert Reference.parse("a").with_default_tag().familiar == "a:latest"
    assert Reference.parse(f"a@{DIGEST}").with_default_tag().tag == ""


@pytest.mark.parametrize("digest", ["", "sha256:", "sha256:" + "AB" * 32, "sha256:" + "a" * 63, "x", "sha256/../../a"])
def test_a_digest_that_is_none_is_refused(digest):
    with pytest.raises(Invalid):
        check_digest(digest)


@given(st.text(max_size=80))
def test_any_text_is_a_reference_or_refused(text):
    try:
        reference = Reference.parse(text)
    except Invalid:
        return
    assert ".." not in reference.path.split("/")
    assert Reference.parse(reference.canonical) == reference
