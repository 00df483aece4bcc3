"""The lines of a build: whole characters, quiet builds, and what bounds them."""

from engine.daemon.builder.output import Lines, short


def said(*calls: tuple, quiet: bool = False, shows_ids: bool = True) -> list[dict]:
    """What comes of these calls: (method, argument, ...)."""
    lines: list[dict] = []
    output = Lines(lines.append, quiet, shows_ids)
    for name, *arguments in calls:
        getattr(output, name)(*arguments)
    return lines


def test_a_character_that_two_pieces_share_stays_whole() -> None:
    lines = said(("command", b"a\xc3", False), ("command", b"\xa4b", False), ("command", b"\xff", False))
    assert [line["stream"] for line in lines] == ["a", "äb", "\ufffd"]


def test_what_is_left_of_a_character_is_shown_at_the_end_and_streams_do_not_mix() -> None:
    lines = said(("command", b"\xc3", False), ("command", b"\xa4", True), ("command_ended",), ("command", b"x", False))
    assert [line["stream"] for line in lines] == ["\x1b[91m\ufffd\x1b[0m", "\ufffd", "x"]


def test_a_quiet_build_says_its_result_alone() -> None:
    calls = (
        ("step", 1, 2, "FROM x"),
        ("line", {"status": "Pulling", "progressDetail": {}}),
        ("image", "sha256:i"),
    )
    assert said(*calls, ("result", "sha256:i"), quiet=True) == [{"stream": "sha256:i\n"}]


def test_a_quiet_build_that_fails_says_what_it_kept_and_not_without_bound() -> None:
    piece = b"x" * 60_000
    calls = [("note", "first"), *[("command", piece, False)] * 40, ("note", "last"), ("failed",), ("note", "more")]
    lines = said(*calls, quiet=True)
    assert [line["stream"] for line in lines[-2:]] == ["last", "more"]
    assert 900_000 < sum(len(line["stream"]) for line in lines) <= (1 << 20) + 4


def test_ids_are_only_for_those_who_know_them() -> None:
    assert said(("image", "sha256:i")) == [{"aux": {"ID": "sha256:i"}}]
    assert said(("image", "sha256:i"), shows_ids=False) == []
    assert short("sha256:" + "ab" * 32) == "abababababab" == short("ab" * 32)
