"""From bytes to instructions: lines, directives, heredocs, flags, arguments."""

import pytest

from engine.daemon.dockerfile import parser
from engine.daemon.dockerfile.statements import Heredoc
from engine.errors import Invalid


def originals(text: str) -> list[str]:
    return [one.original for one in parser.statements(text.encode()).instructions]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FROM a\nRUN b\n", ["FROM a", "RUN b"]),
        ("FROM a\r\nRUN b \\\r\n  c\r\n", ["FROM a", "RUN b   c"]),
        ("\ufeffFROM a", ["FROM a"]),
        ("\n\n  # c\n\t from   a  \n", ["from   a"]),
        ("RUN a \\\n  b \\\n\\\n  c", ["RUN a   b   c"]),
        ("RUN a \\\n# c\n\n  # d\n  \n && b", ["RUN a  && b"]),
        ("RUN a \\  \t\nb", ["RUN a b"]),
        ("RUN a\\\\\nUSER b", ["RUN a\\\\", "USER b"]),
        ("RUN a \\", ["RUN a"]),
        ("RUN a \\\n# only a comment", ["RUN a"]),
        ("RUN a # no comment\nUSER b", ["RUN a # no comment", "USER b"]),
        ("\\\nRUN a", ["RUN a"]),
        ("# escape=`\nRUN a `\n b\\\nUSER c", ["RUN a  b\\", "USER c"]),
    ],
)
def test_lines_are_joined_and_comments_left_out(text, expected):
    assert originals(text) == expected


def test_a_line_that_goes_on_over_empty_ones_is_warned_of():
    dockerfile = parser.statements(b"FROM a\nENV a=b \\\n\n  c=d\nRUN a \\\n# c\n b\n")
    assert dockerfile.warnings == ("Empty continuation line found in: ENV a=b   c=d",)


def test_each_instruction_knows_its_lines():
    text = "# c\nFROM a\n\nRUN b \\\n\n  c\nCOPY <<A <<B /d\n1\nA\n2\nB\nUSER x\n"
    lines = [(one.keyword, one.line, one.last_line) for one in parser.statements(text.encode()).instructions]
    assert lines == [("FROM", 2, 2), ("RUN", 4, 6), ("COPY", 7, 11), ("USER", 12, 12)]


def test_directives_stand_at_the_beginning_before_any_other_comment():
    dockerfile = parser.statements(b"# Syntax = docker/dockerfile:1\n#escape=`\n# check=skip=all\nFROM a")
    assert dockerfile.directives == {"syntax": "docker/dockerfile:1", "escape": "`", "check": "skip=all"}
    assert dockerfile.escape == "`"
    for late in ("\n# escape=`\nFROM a", "# c\n# escape=`\nFROM a", "# other=x\n# escape=`\nFROM a"):
        assert parser.statements(late.encode()).escape == "\\"


@pytest.mark.parametrize(
    ("line", "flags", "arguments"),
    [
        ("RUN --a=b --c --d= e --f", (("a", "b"), ("c", None), ("d", "")), ("e --f",)),
        ("RUN -- --a", (), ("--a",)),
        ("RUN --a='b c'\"d\" e", (("a", "b cd"),), ("e",)),
        (r"RUN --a=b\ c\'d e", (("a", "b c'd"),), ("e",)),
        ("RUN -a b", (), ("-a b",)),
        ("COPY --from=x a  b\tc", (("from", "x"),), ("a", "b", "c")),
        ("COPY ['a', 'b']", (), ("['a',", "'b']")),
        ("COPY a [b", (), ("a", "[b")),
        ("CMD echo  'a'  b", (), ("echo  'a'  b",)),
        ("CMD", (), ()),
        ('ENV a=b c=\'d e\' f="g \\" h" i=j\\ k', (), ("a", "b", "c", "'d e'", "f", '"g \\" h"', "i", "j\\ k")),
        ("ENV a  the 'rest'  ", (), ("a", "the 'rest'")),
        ("ENV a=b\\", (), ("a", "b")),
        ("LABEL 'a b'=c", (), ("'a b'", "c")),
        ("ARG a b=c d='e f'", (), ("a", "b=c", "d='e f'")),
        ("USER a  b", (), ("a  b",)),
        ("EXPOSE 1 2/udp", (), ("1", "2/udp")),
        ("HEALTHCHECK --interval=1s CMD a  b", (("interval", "1s"),), ("CMD", "a  b")),
        ("ONBUILD RUN --x a b", (), ("RUN", "a b")),
        ('ONBUILD COPY ["a", "b"]', (), ("COPY", "a", "b")),
    ],
)
def test_an_instruction_comes_apart_into_flags_and_arguments(line, flags, arguments):
    (one,) = parser.statements(line.encode()).instructions
    assert (one.flags, one.arguments, one.exec_form and one.keyword != "ONBUILD") == (flags, arguments, False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('CMD ["a", "b c"]', ("a", "b c")),
        ('CMD [ "a" ]  ', ("a",)),
        ("CMD []", ()),
        ('CMD ["a\\u00e9\\ud83d\\ude00"]', ("a\u00e9\U0001f600",)),
        ('CMD ["\\ud800"]', ("\ufffd",)),
        ('ENTRYPOINT ["a", \\\n  "b"]', ("a", "b")),
        ('HEALTHCHECK CMD ["a"]', ("CMD", "a")),
        ('VOLUME ["/a b"]', ("/a b",)),
    ],
)
def test_a_json_list_is_an_exec_form(text, expected):
    (one,) = parser.statements(text.encode()).instructions
    assert (one.exec_form, one.arguments) == (True, expected)


@pytest.mark.parametrize(
    "text", ['["a"', "['a']", '["a"] b', "[a]", '["a",]', "[NaN]", '["a\tb"]', "[ -f x ] && y", "[" * 20000]
)
def test_what_is_no_json_list_is_for_a_shell(text):
    (one,) = parser.statements(f"RUN {text}".encode()).instructions
    assert (one.exec_form, one.arguments) == (False, (text,))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("RUN <<EOF\na\n  b\nEOF\n", [Heredoc("EOF", "a\n  b\n")]),
        ("RUN <<EOF\nEOF", [Heredoc("EOF", "")]),
        ("RUN <<-E\n\ta\n\t\tE\n", [Heredoc("E", "\ta\n", chomp=True)]),
        ("RUN <<'E'\n$a\nE\n", [Heredoc("E", "$a\n", expand=False)]),
        ('RUN <<"E F"\nx\nE F\n', [Heredoc("E F", "x\n", expand=False)]),
        ("RUN <<E''F\nx\nEF\n", [Heredoc("EF", "x\n", expand=False)]),
        ("RUN cat <<A 3<<-B > x\n1\nA\n2\nB\n", [Heredoc("A", "1\n"), Heredoc("B", "2\n", chomp=True)]),
        ("RUN << E\nx\nE\n", [Heredoc("E", "x\n")]),
        ("RUN <<E \\\n && b\nx\nE\n", [Heredoc("E", "x\n")]),
        ("RUN <<E\r\nx\r\nE\r\n", [Heredoc("E", "x\r\n")]),
        ("RUN <<E\n# no comment \\\n\nE\n", [Heredoc("E", "# no comment \\\n\n")]),
        ("RUN <<$A\nx\n$A\n", [Heredoc("$A", "x\n")]),
        ("COPY <<a.txt b <<c /\n1\na.txt\n2\nc\n", [Heredoc("a.txt", "1\n"), Heredoc("c", "2\n")]),
        ("ONBUILD RUN <<E\nx\nE\n", [Heredoc("E", "x\n")]),
        ("RUN echo '<<E' \"<<E\" a<<<b c<<\n", []),
        ("RUN a <<\n", []),
        ("RUN 'a <<E\n", []),
        ('RUN ["a", "<<E"]\n', []),
        ("CMD <<E\n", []),
        ("ENV a=<<E\n", []),
    ],
)
def test_heredocs_are_taken_where_docker_takes_them(text, expected):
    (one,) = parser.statements(text.encode()).instructions
    assert list(one.heredocs) == expected


def test_the_leading_tabs_of_a_heredoc_go_when_it_says_so():
    assert Heredoc("E", "\t\ta\n b\n\tc", chomp=True).chomped() == Heredoc("E", "a\n b\nc")
    assert Heredoc("E", "\ta").chomped() == Heredoc("E", "\ta")


def test_bytes_that_are_no_text_become_the_sign_for_it():
    (one,) = parser.statements(b"RUN a\xffb").instructions
    assert one.text == "a\ufffdb"


def test_a_line_may_be_as_long_as_in_dockerd_and_no_longer():
    assert len(originals("RUN " + "x" * 65531)[0]) == 65535
    assert len(originals("RUN " + "x" * 65531 + "\nUSER a")[0]) == 65535
    with pytest.raises(Invalid, match="greater than max allowed size of 65535"):
        originals("RUN " + "x" * 65532)


def test_a_trigger_is_one_instruction_with_its_heredocs():
    assert parser.statement("RUN <<E\nx\nE").heredocs == (Heredoc("E", "x\n"),)
    with pytest.raises(Invalid, match="should be a single expression"):
        parser.statement("RUN a\nRUN b")
    with pytest.raises(Invalid, match="failed to parse the trigger"):
        parser.statement("")


def test_triggers_within_triggers_end():
    with pytest.raises(Invalid, match="Chaining ONBUILD"):
        parser.statements(b"FROM a\n" + b"ONBUILD " * 5000 + b"RUN x")
