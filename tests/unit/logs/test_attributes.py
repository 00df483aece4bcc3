"""What a log says of its container: templates and expressions of clients, who may mean to keep the daemon busy."""

import time

import pytest

from engine.dataclass import replace
from engine.errors import Invalid
from engine.logs import attributes
from engine.logs.attributes import Described

ONE = Described("1" * 64, "name", "image", "sha256:" + "2" * 64, (), {})


@pytest.mark.parametrize("template", ["{{" * 200_000, "{{-" * 100_000, "{{.ID" * 100_000, "{{" + " " * 400_000])
def test_a_tag_that_never_closes_is_refused_at_once(template: str) -> None:
    """Looking for the end anew from each beginning takes hours, and nobody else runs meanwhile."""
    before = time.process_time()
    with pytest.raises(Invalid, match="unclosed action"):
        attributes.tag(template, ONE)
    assert time.process_time() - before < 2


def test_a_tags_fields_are_filled_in() -> None:
    assert attributes.tag("{{.ID}}-{{- .Name -}}/{{ .ContainerName }}", ONE) == "111111111111-name//name"


def test_labels_are_looked_for_in_a_bounded_time() -> None:
    """The worst expression that is let through, on a hundred names made for it."""
    labels = {"a" * 300 + str(number): "x" for number in range(10)}
    before = time.process_time()
    assert attributes.extra({"labels-regex": "a*a*a*b"}, replace(ONE, labels=labels)) == {}
    assert time.process_time() - before < 10
