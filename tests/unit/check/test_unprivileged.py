"""What keeps a user from having a daemon of the user's own, as `engine check` says it."""

import os
from pathlib import Path

import pytest

from engine.check import row, unprivileged
from engine.errors import Unavailable
from engine.settings import every

OWN = {check.name: check for check in unprivileged.CHECKS}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kernel.unprivileged_userns_clone", "0"),
        ("kernel.apparmor_restrict_unprivileged_userns", "1"),
        ("user.max_user_namespaces", "0"),
    ],
)
def test_the_setting_is_named_that_is_in_the_way(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here files stand for those of /proc/sys: the kernel of the tests has none of the first two."""
    (tmp_path / name).write_text(f"{value}\n")

    def refused() -> str:
        raise Unavailable("no user namespace can be made: Operation not permitted")

    monkeypatch.setattr(unprivileged, "_moved", {})
    monkeypatch.setattr(unprivileged, "_file", lambda other: str(tmp_path / other))
    monkeypatch.setattr(unprivileged.subordinate, "enter", refused)
    monkeypatch.setattr(unprivileged.whose, "check", lambda *_: None)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.delenv(unprivileged.whose.OWNER, raising=False)
    unprivileged.move()
    check = OWN["namespaces of a user"]
    found = check.probe(every.from_arguments([]))
    assert found.state == row.MISSING and check.essential
    assert found.text.endswith(f"Operation not permitted, with {name}={value}")
    assert name in check.mend
    monkeypatch.delenv(unprivileged.whose.OWNER)
