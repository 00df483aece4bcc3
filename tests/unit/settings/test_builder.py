"""The daemon's options on builds."""

from pathlib import Path

import pytest

from engine.errors import Invalid
from tests.unit.settings.test_every import made


@pytest.mark.parametrize(
    ("document", "granted"),
    [
        ({}, ("network-host",)),
        ({"builder": {}}, ("network-host",)),
        ({"builder": {"entitlements": {"security-insecure": True}}}, ("network-host", "security-insecure")),
        ({"builder": {"entitlements": {"network-host": False}}}, ("none",)),
        ({"builder": {"Entitlements": {"Network-Host": False}}}, ("none",)),
    ],
)
def test_entitlements_of_the_file(tmp_path: Path, document: dict, granted: tuple) -> None:
    assert made(tmp_path, document=document).entitlements == granted


@pytest.mark.parametrize(
    "value",
    [[], {"history": {}}, {"gc": [1]}, {"entitlements": {"weather": True}}, {"entitlements": {"network-host": "yes"}}],
)
def test_what_is_wrong_in_the_file(tmp_path: Path, value: object) -> None:
    with pytest.raises(Invalid, match="builder"):
        made(tmp_path, document={"builder": value or [1]})


def test_the_command_line(tmp_path: Path) -> None:
    assert made(tmp_path, ["--builder-entitlement", "security-insecure"]).entitlements == ("security-insecure",)
    assert made(tmp_path, ["--builder-entitlement", "none"]).entitlements == ("none",)
    with pytest.raises(Invalid, match="builder-entitlement"):
        made(tmp_path, ["--builder-entitlement", "weather"])
