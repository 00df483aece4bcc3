"""The forms of GET /system/df: lists of old, sums of today, both for who does not say."""

import pytest

from engine.daemon.api import usageform
from engine.errors import Invalid

IMAGE = {"Id": "sha256:1", "Containers": 2, "Size": 9, "RepoTags": [], "RepoDigests": [], "Descriptor": {}}
USAGE = {
    "image": {"ActiveCount": 1, "Items": [IMAGE], "Reclaimable": 0, "TotalCount": 1, "TotalSize": 9},
    "volume": {"ActiveCount": 0, "Items": [], "Reclaimable": 0, "TotalCount": 0, "TotalSize": 0},
}
WHOLE = {**USAGE, "container": USAGE["volume"], "build-cache": {**USAGE["volume"], "TotalSize": 5}}


@pytest.mark.parametrize(
    ("version", "text", "verbose"),
    [((1, 51), "1", None), ((1, 52), "", None), ((1, 52), "1", True), ((1, 54), "F", False), ((1, 54), "false", False)],
)
def test_whether_lists_are_asked_for(version, text, verbose):
    assert usageform.verbosity(version, text) is verbose


def test_a_flag_that_is_none():
    with pytest.raises(Invalid, match="invalid value for verbose: yes"):
        usageform.verbosity((1, 54), "yes")
    assert usageform.verbosity((1, 51), "yes") is None, "older clients cannot ask"


def test_of_what_is_0_nothing_is_shown():
    brief = usageform.shown((1, 54), USAGE, verbose=False)
    assert brief == {"ImageUsage": {"ActiveCount": 1, "TotalCount": 1, "TotalSize": 9}, "VolumeUsage": {}}
    long = usageform.shown((1, 54), USAGE, verbose=True)
    assert long["ImageUsage"]["Items"] == [IMAGE] and long["VolumeUsage"] == {}


def test_who_does_not_say_is_told_both():
    both = usageform.shown((1, 54), USAGE, verbose=None)
    assert list(both) == ["LayersSize", "Images", "Volumes", "ImageUsage", "VolumeUsage"]
    assert (both["LayersSize"], both["Volumes"], both["ImageUsage"]["Items"]) == (9, [], [IMAGE])


def test_older_clients_see_four_lists():
    shown = usageform.shown((1, 51), USAGE, verbose=None)
    assert list(shown) == ["LayersSize", "Images", "Containers", "Volumes", "BuildCache"]
    assert shown["Containers"] is None and shown["Images"][0]["Containers"] == 2
    assert "Descriptor" not in usageform.shown((1, 47), USAGE, verbose=None)["Images"][0]
    assert usageform.shown((1, 41), WHOLE, verbose=None)["BuilderSize"] == 5
