"""engine.daemon.api.versions: which versions are spoken, and what the older ones see otherwise."""

import pytest

from engine.daemon.api import versions
from engine.errors import Invalid


@pytest.mark.parametrize(
    ("path", "split"),
    [
        ("/v1.54/info", ("1.54", "/info")),
        ("/info", ("", "/info")),
        ("/v1.54", ("", "/v1.54")),
        ("/v1/info", ("", "/v1/info")),
        ("/v1.2.3/info", ("", "/v1.2.3/info")),
        ("/version", ("", "/version")),
        ("/v1.24/v1.24/info", ("1.24", "/v1.24/info")),
    ],
)
def test_a_version_is_taken_off_a_path(path, split):
    assert versions.split_version(path) == split


def test_every_version_from_the_oldest_to_the_newest_is_spoken():
    for minor in range(24, 55):
        versions.check_version(f"1.{minor}", versions.parse_version(f"1.{minor}"))
    assert versions.parse_version("") == versions.NEWEST
    for text in ("1.23", "0.99", "1.55", "2.0", "1.540", "99999.0"):
        with pytest.raises(Invalid, match=f"client version {text} is too"):
            versions.check_version(text, versions.parse_version(text))


def test_the_texts_are_the_numbers():
    assert f"{versions.NEWEST[0]}.{versions.NEWEST[1]}" == versions.NEWEST_TEXT
    assert f"{versions.OLDEST[0]}.{versions.OLDEST[1]}" == versions.OLDEST_TEXT


def test_an_image_had_a_virtual_size_until_1_43():
    shown = {"Size": 5}
    assert versions.image((1, 43), shown) == {"Size": 5, "VirtualSize": 5}
    assert versions.image((1, 44), shown) == shown
    assert shown == {"Size": 5}


def test_the_parameter_filter_was_a_reference_until_1_40():
    assert versions.image_filters((1, 40), {"reference": ("a",)}, "b") == {"reference": ("a", "b")}
    assert versions.image_filters((1, 40), {}, "") == {}
    assert versions.image_filters((1, 41), {}, "b") == {}
