"""What a daemon tells of itself: labels, resources, features, the form of its log, its oldest API version."""

import pytest

from engine.errors import Invalid
from engine.settings import advertised, every


def made(*arguments):
    return every.from_arguments(["--config-file", "/dev/null", *arguments], {}, 0)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--label", "a"], "bad attribute format: a"),
        (["--label", "com.docker.x=1"], "label com.docker.x=1 is not allowed: the namespaces com.docker.*"),
        (["--label", "a=b", "--label", "a=c"], "conflict labels for a=c and a=b"),
        (["--node-generic-resource", "a"], "invalid node-generic-resource format `a` expected `name=value`"),
        (["--feature", "=1"], "invalid option name: =1"),
        (["--feature", "a=b"], 'strconv.ParseBool: parsing "b": invalid syntax'),
        (["--log-level", "loud"], "invalid logging level: loud"),
        (["--log-format", "xml"], "invalid log format: xml"),
    ],
)
def test_what_dockerd_refuses_is_refused_in_its_words(arguments, text):
    with pytest.raises(Invalid) as caught:
        made(*arguments)
    assert text in str(caught.value)


def test_levels_of_dockerds_that_the_log_does_not_have_are_the_nearest():
    assert [made("-l", text).log_level for text in ("trace", "panic", "WARN")] == ["debug", "fatal", "warn"]


def test_a_label_counts_once():
    assert made("--label", "a=b", "--label", "c=d", "--label", "a=b").labels == ("a=b", "c=d")


def test_the_last_word_about_a_feature_counts():
    features = made("--feature", "buildkit=0", "--feature", "buildkit", "--feature", "x").features
    assert features == ("buildkit=false", "buildkit=true", "x=true")
    assert advertised.has_feature(features, "buildkit", default=False)
    assert advertised.has_feature((), "buildkit", default=True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("v1.30", 'API version must be provided without "v" prefix'),
        ("1.23", "minimum supported API version is 1.24: 1.23"),
        ("1.999", "maximum supported API version is 1.54: 1.999"),
        ("1", "invalid API version: 1"),
        ("x.y", "invalid API version: x.y"),
    ],
)
def test_an_oldest_version_that_is_none_is_refused(text, words):
    with pytest.raises(Invalid, match=words):
        advertised.oldest_by_variable(text)
