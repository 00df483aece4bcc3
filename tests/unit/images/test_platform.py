"""Platforms: names as people and machines write them, and the choice among a list's entries."""

import pytest

from engine.daemon.images import platform
from engine.daemon.images.platform import Platform
from engine.errors import Invalid


def entries(*names: str) -> list[dict]:
    """Descriptors for os/arch[/variant] names."""
    found = []
    for name in names:
        system, architecture, variant = (name + "/").split("/")[:3]
        found.append({"name": name, "platform": {"os": system, "architecture": architecture, "variant": variant}})
    return found


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("linux/amd64", "linux/amd64"),
        ("linux/x86_64", "linux/amd64"),
        ("arm64", "linux/arm64"),
        ("linux/arm64/v8", "linux/arm64"),
        ("linux/aarch64", "linux/arm64"),
        ("linux/arm", "linux/arm/v7"),
        ("linux/arm/v6", "linux/arm/v6"),
        ("Linux/AMD64", "linux/amd64"),
        ("windows(10.0.17763+win32k)/amd64", "windows/amd64"),
    ],
)
def test_a_platform_has_one_form(text, shown):
    assert str(platform.parse(text)) == shown


OS_IS = "OSAndVersion specifier component must match "
OS_IS += r'"^([A-Za-z0-9_-]+)(?:\\(([A-Za-z0-9_.%-]*)((?:\\+[A-Za-z0-9_.%-]+)*)\\))?$"'
PART_IS = 'platform specifier component must match "^[A-Za-z0-9_.-]+$"'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", f'"" is an invalid OS component of "": {OS_IS}'),
        ("/", f'"" is an invalid OS component of "/": {OS_IS}'),
        ("lin ux/amd64", f'"lin ux" is an invalid OS component of "lin ux/amd64": {OS_IS}'),
        ("linux(/amd64", f'"linux(" is an invalid OS component of "linux(/amd64": {OS_IS}'),
        ("linux/", f'"" is an invalid component of "linux/": {PART_IS}'),
        ("a/b/c/d/e", f'"d/e" is an invalid component of "a/b/c/d/e": {PART_IS}'),
        ('linux/"', rf'"\"" is an invalid component of "linux/\"": {PART_IS}'),
        ("a/b/c/d", '"a/b/c/d": cannot parse platform specifier'),
        ("linux/*", '"linux/*": wildcards not yet supported'),
        ("nonsense", '"nonsense": unknown operating system or architecture'),
    ],
)
def test_what_is_no_platform_is_refused_in_containerds_words(text, words):
    with pytest.raises(Invalid) as refused:
        platform.parse(text)
    assert str(refused.value) == f"{words}: invalid argument"


@pytest.mark.parametrize(
    ("wanted", "strict", "offered", "chosen"),
    [
        ("linux/amd64", False, ["linux/arm64", "linux/amd64"], "linux/amd64"),
        ("linux/arm64", True, ["linux/arm64/v8", "linux/arm/v7"], "linux/arm64/v8"),
        ("linux/arm64", True, ["linux/arm/v7"], None),
        ("linux/arm64", False, ["linux/arm/v6", "linux/arm/v7"], "linux/arm/v7"),
        ("linux/arm/v7", True, ["linux/arm/v5", "linux/arm/v6"], "linux/arm/v6"),
        ("linux/arm/v6", False, ["linux/arm/v7"], None),
        ("linux/amd64", False, ["windows/amd64"], None),
        ("linux/amd64", False, ["unknown/unknown", "linux/386"], "linux/386"),
        ("linux/amd64", False, [], None),
    ],
)
def test_the_entry_that_fits_best_is_chosen(wanted, strict, offered, chosen):
    found = platform.choose(entries(*offered), platform.parse(wanted), strict)
    assert (found and found["name"]) == chosen


def test_an_entry_without_a_platform_is_passed_over():
    assert platform.choose([{"digest": "x"}], Platform("linux", "amd64"), strict=False) is None


def test_a_platform_in_json_is_the_same_one():
    assert str(platform.from_json('{"os":"linux","architecture":"arm64","variant":"v8"}')) == "linux/arm64"


@pytest.mark.parametrize("text", ["linux/arm64", "[]", '{"os":5,"architecture":"arm64"}', '{"os":"linux"}', "{}"])
def test_a_wrong_platform_in_json_is_refused(text):
    with pytest.raises(Invalid, match=r"platform|Architecture"):
        platform.from_json(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("linux", "failed to parse platform: invalid character 'l' looking for beginning of value"),
        ("nope", "failed to parse platform: invalid character 'o' in literal null (expecting 'u')"),
        ("{", "failed to parse platform: unexpected end of JSON input"),
        ("{}", "both OS and Architecture must be provided"),
        ('{"os": "linux"}', "both OS and Architecture must be provided"),
        ('{"variant": "v8"}', "optional platform fields provided, but OS and Architecture are missing"),
    ],
)
def test_what_is_no_platform_in_json_is_refused_in_gos_words(text, words):
    with pytest.raises(Invalid) as refused:
        platform.from_json(text)
    assert str(refused.value) == words


@pytest.mark.parametrize(
    ("wanted", "offered", "place"),
    [
        ("linux/amd64/v2", "linux/amd64", 1),
        ("linux/amd64/v4", "linux/amd64/v3", 1),
        ("linux/amd64/v4", "linux/amd64", 3),
        ("linux/amd64", "linux/amd64/v2", None),
        ("linux/amd64/v2", "linux/amd64/v3", None),
        ("linux/amd64/v3", "linux/386", None),
    ],
)
def test_a_level_of_amd64_takes_the_levels_below_it(wanted: str, offered: str, place: int | None) -> None:
    """And no client that names it gets another architecture."""
    assert platform.rank(platform.parse(wanted), platform.parse(offered), strict=True) == place
