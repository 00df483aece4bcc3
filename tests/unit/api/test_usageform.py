"""The forms of GET /system/df: lists of old, sums of today, both for who does not say."""

from engine.daemon.api import usageform

IMAGE = {"Id": "sha256:1", "Containers": 2, "Size": 9, "RepoTags": [], "RepoDigests": [], "Descriptor": {}}
USAGE = {
    "image": {"ActiveCount": 1, "Items": [IMAGE], "Reclaimable": 0, "TotalCount": 1, "TotalSize": 9},
    "volume": {"ActiveCount": 0, "Items": [], "Reclaimable": 0, "TotalCount": 0, "TotalSize": 0},
}
WHOLE = {**USAGE, "container": USAGE["volume"], "build-cache": {**USAGE["volume"], "TotalSize": 5}}


def test_of_what_is_0_nothing_is_shown():
    sums = usageform.shown((1, 54), USAGE, verbose=True)
    images = {"ActiveCount": 1, "Items": [IMAGE], "TotalCount": 1, "TotalSize": 9}
    assert sums == {"ImageUsage": images, "VolumeUsage": {}}


def test_who_does_not_say_is_told_both():
    both = usageform.shown((1, 54), USAGE, verbose=False)
    assert list(both) == ["LayersSize", "Images", "Volumes", "ImageUsage", "VolumeUsage"]
    assert (both["LayersSize"], both["Volumes"], both["ImageUsage"]["Items"]) == (9, [], [IMAGE])


def test_older_clients_see_four_lists():
    shown = usageform.shown((1, 51), USAGE, verbose=False)
    assert list(shown) == ["LayersSize", "Images", "Volumes"]
    assert shown["Images"][0]["Containers"] == 2 and shown == usageform.shown((1, 51), USAGE, verbose=True)
    assert usageform.shown((1, 43), USAGE, verbose=False)["Images"] == [{**IMAGE, "VirtualSize": 9}]
    assert usageform.shown((1, 41), WHOLE, verbose=False).keys() == {*shown, "Containers", "BuildCache"}
