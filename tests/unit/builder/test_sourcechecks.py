"""What a build asks about its sources: what they are called, and the parts of an ADD."""

import pytest

from engine.daemon.builder import sourcechecks, urls
from engine.daemon.builder.graph.node import Input, Node
from engine.daemon.builder.pulled import Nothing
from engine.daemon.builder.sourcechecks import Instead, SourceChecks
from engine.daemon.builder.sourcepolicies import CONVERT, DENY, PolicyRule, Source, checked
from engine.daemon.dockerfile import commands
from engine.daemon.dockerfile.statements import Heredoc
from engine.errors import Forbidden, Invalid, NotBuilt

SUM = "sha256:" + "a" * 64


def checks(*rules: PolicyRule) -> SourceChecks:
    """The checks of a build with this policy."""
    policies = checked([rules])

    def tree(source: Source, _platform: str) -> Input:
        return Node(Nothing(), name=source.identifier).output()

    return SourceChecks(lambda source, _platform: policies.judged(source), tree)


@pytest.mark.parametrize(
    ("url", "identifier", "attributes"),
    [
        ("https://h.example/a/r.git#v1:d/e", "git://h.example/a/r.git#v1:d/e", {}),
        ("git@h.example:a/r.git", "git://h.example/a/r.git", {"git.mountsshsock": "default"}),
        ("ssh://git@h.example:22/a/r", "git://h.example:22/a/r", {"git.mountsshsock": "default"}),
        ("https://me:secret@h.example/r.git", "git://h.example/r.git", {}),
        ("github.com/a/b?checksum=abc", "git://github.com/a/b", {"git.checksum": "abc"}),
        ("https://h.example/r.git#:d", "git://h.example/r.git#:d", {}),
        ("https://h.example/r.git?submodules=0&mtime=commit", "git://h.example/r.git", {"git.skipsubmodules": "true"}),
    ],
)
def test_a_repository_is_called_as_in_graphs(url: str, identifier: str, attributes: dict[str, str]) -> None:
    address = urls.repository(url)
    assert address is not None
    found = sourcechecks.of_git(address)
    assert found.identifier == identifier
    assert dict(found.attributes).items() >= attributes.items()
    assert found.attributes["git.fullurl"].partition("?")[0].removeprefix("https://") in url


def test_names_of_images_that_no_rule_is_about_stay_as_they_are() -> None:
    found = checks(PolicyRule(DENY, "docker-image://*/secret/*"))
    names = ["alpine", "x.example/y", "Not A Name"]
    assert [found.image(name) for name in names] == names
    with pytest.raises(Forbidden):
        found.image("x.example/secret/y")


def test_an_image_becomes_another_image() -> None:
    alpine = "docker-image://docker.io/library/alpine:latest"
    other = "docker-image://x.example/y:1"
    assert checks(PolicyRule(CONVERT, alpine, target=other)).image("alpine") == "x.example/y:1"
    pinned = PolicyRule(CONVERT, alpine, attributes={"image.checksum": SUM})
    assert checks(pinned).image("alpine") == f"docker.io/library/alpine:latest@{SUM}"
    with pytest.raises(Invalid, match="ref mutated by policy to non-image"):
        checks(PolicyRule(CONVERT, alpine, target="https://x")).image("alpine")
    with pytest.raises(NotBuilt, match=r"image\.layerlimit"):
        checks(PolicyRule(CONVERT, alpine, attributes={"image.layerlimit": "1"})).image("alpine")


def test_what_cannot_be_named_is_denied_with_everything() -> None:
    closed = checks(PolicyRule(DENY, "*"))
    for name in ("f" * 64, f"sha256:{'a' * 64}"):
        with pytest.raises(Forbidden, match="denied by policy"):
            closed.image(name)


def test_an_add_that_nothing_changes_is_one_part() -> None:
    command = commands.Add(("file", "https://a.example/x"), "/")
    assert [part.command for part in SourceChecks().added(command)] == [command]
    assert [part.command for part in checks(PolicyRule(DENY, "git://*")).added(command)] == [command]
    text = Heredoc("name", expand=False, chomp=False, data="x")
    for command in (commands.Add((), "/", heredocs=(text,)), commands.Add(("file",), "/", heredocs=(text,))):
        assert [part.command for part in checks().added(command)] == [command]


def test_a_file_is_downloaded_from_elsewhere_and_keeps_its_name() -> None:
    command = commands.Add(("file", "https://a.example/x", "https://a.example/y"), "/")
    pinned = PolicyRule(CONVERT, "https://a.example/x", attributes={"http.checksum": SUM})
    moved = PolicyRule(CONVERT, "https://a.example/*", target="https://mirror.example/of-$1")
    (part,) = checks(pinned, moved).added(command)
    assert part.command == command
    assert part.instead == {
        "https://a.example/x": Instead("https://mirror.example/of-x", SUM),
        "https://a.example/y": Instead("https://mirror.example/of-y", ""),
    }


def test_what_becomes_something_else_is_a_part_of_its_own() -> None:
    command = commands.Add(("one", "https://a.example/x", "two", "https://b.example/r.git#v1"), "/d/")
    found = checks(
        PolicyRule(CONVERT, "https://a.example/x", target="local://there"),
        PolicyRule(CONVERT, "git://b.example/*", target="git://c.example/$1"),
    ).added(command)
    assert [part.command.sources for part in found] == [("one",), ("/x",), ("two",), ("/",)]
    assert [part.tree.node.name if part.tree else "" for part in found] == [
        "",
        "local://there",
        "",
        "git://c.example/r.git#v1",
    ]


def test_the_sources_of_add_are_denied() -> None:
    command = commands.Add(("file", "https://a.example/x", "https://b.example/r.git#v1"), "/")
    with pytest.raises(Forbidden, match=r"git://b\.example/r\.git#v1"):
        checks(PolicyRule(DENY, "git://b.example/*")).added(command)
    with pytest.raises(Forbidden, match=r"https://a\.example/x"):
        checks(PolicyRule(DENY, "https://*")).added(command)
    checks(PolicyRule(DENY, "https://file")).added(command)
