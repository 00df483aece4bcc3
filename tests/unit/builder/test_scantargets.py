"""Which trees of a Dockerfile a bill of materials is about beside the result."""

import pytest

from engine.daemon.builder import scantargets
from engine.daemon.builder.localtree import Loading, LocalTree
from tests.unit.builder.test_converting import converted

STAGES = (
    "FROM b AS one\nRUN x\n{one}FROM b\n{two}RUN y\nFROM b AS never\n{three}RUN z\n"
    "FROM one AS last\n{last}COPY --from=1 a /"
)
ON = "ARG BUILDKIT_SBOM_SCAN_STAGE=true\n"
CONTEXT = "ARG BUILDKIT_SBOM_SCAN_CONTEXT=true\n"


def found(before: str = "", args: dict[str, str] | None = None, **more: str) -> list[str]:
    """The names of the trees. before: stands before the first stage; more: in stages"""
    text = before + STAGES.format_map({"one": "", "two": "", "three": "", "last": ""} | more)
    return list(scantargets.find(converted(text, args=args or {})[0]).trees)


def test_none_is_wanted() -> None:
    assert found() == []
    assert found(args={"BUILDKIT_SBOM_SCAN_STAGE": "true"}) == [], "no ARG has named it"


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ("true", ["one", "stage-1"]),
        ("1", ["one", "stage-1"]),
        ("false", []),
        ("one", ["one"]),
        ("never,stage-1,last", ["stage-1"]),
        ("other", []),
        ("", []),
    ],
)
def test_before_the_first_stage_it_is_for_all_that_are_needed(said: str, names: list[str]) -> None:
    assert found(f"ARG BUILDKIT_SBOM_SCAN_STAGE={said}\n") == names
    assert found("ARG BUILDKIT_SBOM_SCAN_STAGE\n", args={"BUILDKIT_SBOM_SCAN_STAGE": said}) == names


def test_in_a_stage_it_is_for_that_stage() -> None:
    assert found(two=ON) == ["stage-1"]
    assert found(last=ON) == [], "the result itself is scanned anyway"
    assert found(ON, one="ARG BUILDKIT_SBOM_SCAN_STAGE=false\n") == ["stage-1"]


def test_the_context_is_a_tree_that_waits_for_its_files() -> None:
    text = STAGES.format(one="", two="", three="", last=CONTEXT)
    trees = scantargets.find(converted(text)[0]).trees
    assert list(trees) == ["context"]
    assert trees["context"] is not None
    node = trees["context"].node
    assert isinstance(node.operation, LocalTree)
    assert [type(each.node.operation) for each in node.inputs] == [Loading]
    assert found(two=CONTEXT) == [], "it is a matter of the last stage"
    assert found(one=CONTEXT) == ["context"], "which has the arguments of the one that it stands on"


def test_one_that_is_built_anew_is_scanned_anew() -> None:
    def fresh(**options: object) -> bool:
        text = STAGES.format(one=ON, two="", three="", last="")
        return scantargets.find(converted(text, **options)[0]).fresh

    assert not fresh()
    assert fresh(no_cache=True)
    assert fresh(no_cache_stages=("one",))
    assert fresh(no_cache_stages=("last",))
    assert not fresh(no_cache_stages=("never",))


def test_no_step_sees_these_arguments() -> None:
    conversion, built = converted(f"{ON}FROM b\n{CONTEXT}ARG BUILDKIT_SBOM_SCAN_STAGE\nARG v=1\nRUN x $v")
    assert built.tree is not None
    env = built.tree.node.operation.command.env  # type: ignore[attr-defined]
    assert "v=1" in env and not any("SBOM" in each for each in env)
    assert conversion.built
