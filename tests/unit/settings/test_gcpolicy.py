"""What daemon.json says of the build cache's garbage collection."""

import pytest

from engine.errors import Invalid
from engine.settings.gcpolicy import GcPolicy, GcRule, read


def test_nothing_said_is_the_engines_own_way():
    assert read({}) == GcPolicy() == GcPolicy(enabled=True, default=GcRule(), rules=None)


def test_names_are_taken_in_any_case_and_by_their_former_words():
    assert read({"Enabled": True, "defaultKeepStorage": "20GB"}) == GcPolicy(default=GcRule(reserved=20 << 30))
    assert read({"defaultmaxusedspace": "1k", "defaultMinFreeSpace": "2"}).default == GcRule(most=1024, free=2)


def test_rules_are_those_of_the_list():
    rules = [
        {"keepStorage": "10GB", "filter": ["unused-for=2200h", "type==source.local"]},
        {"reservedSpace": "50GB", "all": True},
    ]
    assert read({"policy": rules}).rules == (
        GcRule(False, (("unused-for", "2200h"), ("type", "source.local")), 10 << 30),
        GcRule(True, (), 50 << 30),
    )
    assert read({"policy": []}).rules == ()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([], "expected an object"),
        ({"enabled": 1}, "gc.enabled: expected true or false, got 1"),
        ({"weather": 1}, "gc: unknown weather"),
        ({"defaultKeepStorage": "x"}, "failed to parse defaultreservedspace: invalid size: 'x'"),
        ({"defaultKeepStorage": 7}, "expected a size, got 7"),
        ({"policy": {}}, "gc.policy: expected a list"),
        ({"policy": [{}] * 101}, "gc.policy: expected a list of at most 100 rules"),
        ({"policy": [{"all": "yes"}]}, "gc.policy.all: expected true or false"),
        ({"policy": [{"filter": {}, "x": 1}]}, "gc: unknown x"),
        ({"policy": [{"filter": "a=b"}]}, "expected a list of strings"),
        ({"policy": [{"filter": ["colour=red"]}]}, "give NAME=VALUE with one of description, id"),
        ({"policy": [{"filter": ["until=soon"]}]}, "time: invalid duration"),
    ],
)
def test_what_is_wrong_is_refused(value, text):
    with pytest.raises(Invalid) as caught:
        read(value)
    assert text in str(caught.value)
