"""engine.settings.configfile: names within the objects of daemon.json, whose case Go's JSON does not look at."""

from pathlib import Path

import pytest

from engine.errors import Invalid
from engine.settings.gcpolicy import GcPolicy
from tests.unit.settings.test_every import made


@pytest.mark.parametrize(
    ("document", "name", "value"),
    [
        ({"builder": {"GC": {"Enabled": False}}}, "gc", GcPolicy(enabled=False)),
        ({"builder": {"gc": {"enabled": True}, "Gc": {"enabled": False}}}, "gc", GcPolicy(enabled=False)),
        ({"runtimes": {"odd": {"Path": "/bin/odd", "RUNTIMEARGS": ["-x"]}}}, "runtimes", ('odd=["/bin/odd", "-x"]',)),
        ({"default-ulimits": {"nofile": {"hard": 9, "soft": 7}}}, "default_ulimits", ("nofile=7:9",)),
        (
            {"default-address-pools": [{"Base": "10.9.0.0/16", "Size": 24}]},
            "default_address_pools",
            ("10.9.0.0/16,24",),
        ),
    ],
)
def test_names_within_an_object_may_stand_in_any_case(tmp_path: Path, document: dict, name: str, value: object) -> None:
    """The last of two that differ in nothing else counts."""
    assert getattr(made(tmp_path, document=document), name) == value


@pytest.mark.parametrize("document", [{"Debug": True}, {"Builder": {}}, {"proxies": {"HTTP-Proxy": "http://x"}}])
def test_names_of_flags_are_found_as_they_are(tmp_path: Path, document: dict) -> None:
    with pytest.raises(Invalid, match="don't match any configuration option"):
        made(tmp_path, document=document)
