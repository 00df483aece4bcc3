"""Device rules and the program that is made of them, held against what the rules say, combination by combination."""

import itertools

import pytest

from engine.errors import Invalid
from engine.sandbox import device_program
from engine.sandbox.device_rules import DEFAULT, Rule, parse
from tests.unit.sandbox import ebpf_machine

KINDS = {"b": 1, "c": 2}
BITS = {"m": 1, "r": 2, "w": 4}
LARGEST = (1 << 32) - 1
ACCESSES = ["".join(marks) for count in (1, 2, 3) for marks in itertools.combinations("rwm", count)]
NUMBERS = ("*", "0", "1", "136", str(LARGEST))


def allowed(rules: list[Rule], kind: str, access: int, major: int, minor: int) -> bool:
    """What the rules say: the first that covers all that is asked allows it."""
    for rule in rules:
        bits = sum(BITS[mark] for mark in rule.access)
        numbers = (rule.major in (None, major)) and (rule.minor in (None, minor))
        if access & ~bits == 0 and (rule.kind == "a" or (rule.kind == kind and numbers)):
            return True
    return False


def compare(texts: list[str]) -> None:
    """Every access to devices in and around the rules."""
    program = device_program.assemble(texts)
    assert ebpf_machine.reachable(program)
    rules = [parse(text) for text in texts]
    near = {0, 1, 5, 136, 137, 1 << 31, LARGEST}
    for kind, access, major, minor in itertools.product("bc", range(1, 8), near, near):
        verdict = ebpf_machine.run(program, KINDS[kind], access, major, minor)
        assert verdict == allowed(rules, kind, access, major, minor), (texts, kind, access, major, minor)


@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize("kind", "abc")
def test_a_rule_alone_allows_what_it_says_and_nothing_else(kind: str, access: str) -> None:
    for major, minor in itertools.product(NUMBERS, NUMBERS):
        compare([f"{kind} {major}:{minor} {access}"])


@pytest.mark.parametrize("first", ["c *:* m", "b 1:* rw", "c 1:5 r", "a *:* r", "a 1:1 rwm"])
@pytest.mark.parametrize("second", ["c *:* m", "c 1:5 w", "b 136:0 rwm", "a *:* w", "a *:* rwm"])
@pytest.mark.parametrize("third", ["b *:136 rwm", "c 1:* rwm"])
def test_rules_add_up_and_each_must_cover_the_whole_access(first: str, second: str, third: str) -> None:
    compare([first, second, third])


def test_dockers_rules_are_what_they_are_on_version_1() -> None:
    compare(list(DEFAULT))
    program = device_program.assemble(DEFAULT)
    assert ebpf_machine.run(program, KINDS["c"], BITS["r"] | BITS["w"], 1, 3) == 1  # /dev/null
    assert ebpf_machine.run(program, KINDS["b"], BITS["m"], 8, 0) == 1  # a node may be made
    assert ebpf_machine.run(program, KINDS["b"], BITS["r"], 8, 0) == 0  # and not be used
    assert ebpf_machine.run(program, KINDS["c"], BITS["r"], 1, 1) == 0  # /dev/mem


def test_no_rule_at_all_allows_nothing() -> None:
    compare([])


def test_a_thousand_rules_still_make_a_program() -> None:
    program = device_program.assemble([f"c {number}:* rwm" for number in range(1000)])
    assert ebpf_machine.reachable(program) and len(program) // 8 < 1_000_000
    assert (
        ebpf_machine.run(program, KINDS["c"], 6, 999, 1) == 1 and ebpf_machine.run(program, KINDS["c"], 6, 1000, 1) == 0
    )


def test_a_rule_is_taken_apart() -> None:
    assert parse("c 13:* rw") == Rule("c", 13, None, "rw")
    assert parse("a *:* mwr") == Rule("a", None, None, "rwm")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "c",
        "c 1:3",
        "c 1:3 ",
        "c 1:3 x",
        "d 1:3 r",
        "c 1:3 rwmr",
        "c -1:3 r",
        "c 1:4294967296 r",
        "c 1:3 r\n",
        " c 1:3 r",
    ],
)
def test_what_is_no_rule_is_refused_in_dockers_words(text: str) -> None:
    with pytest.raises(Invalid, match="invalid device cgroup rule format: "):
        parse(text)
