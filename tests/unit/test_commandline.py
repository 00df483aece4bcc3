"""The parser of command lines, against the rules and the words of pflag."""

import pytest

from engine.commandline import Option, described, parse
from engine.errors import Invalid

OPTIONS = (
    Option("host", "Where", short="H", kind="list", default=("unix:///x",), value="address"),
    Option("root", "Directory", default="/var", value="path"),
    Option("debug", "Say more", short="D", kind="flag", default=False),
    Option("level", "Level", short="l"),
    Option("seconds", "Patience", kind="number", default=15),
)


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        (["--root", "/a"], {"root": "/a"}),
        (["--root=/a"], {"root": "/a"}),
        (["--root="], {"root": ""}),
        (["--root", "--debug"], {"root": "--debug"}),
        (["-H", "a", "-Hb", "-H=c", "--host", "d"], {"host": ("a", "b", "c", "d")}),
        (["-D"], {"debug": True}),
        (["--debug=false"], {"debug": False}),
        (["-D=0"], {"debug": False}),
        (["-Dlwarn"], {"debug": True, "level": "warn"}),
        (["-Dl", "warn"], {"debug": True, "level": "warn"}),
        (["--root", "/a", "--root", "/b"], {"root": "/b"}),
        (["--seconds", "7", "--seconds=-1"], {"seconds": -1}),
        ([], {}),
    ],
)
def test_options_are_read_in_every_way_of_writing_them(arguments, given):
    assert parse(OPTIONS, arguments) == (given, [])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--nope"], "unknown flag: --nope"),
        (["--nope=1"], "unknown flag: --nope"),
        (["-Dx"], "unknown shorthand flag: 'x' in -Dx"),
        (["--root"], "flag needs an argument: --root"),
        (["-DH"], "flag needs an argument: 'H' in -DH"),
        (["--debug=maybe"], 'invalid argument "maybe" for "-D, --debug" flag: neither true nor false'),
        (
            ["--seconds", "x"],
            'invalid argument "x" for "--seconds" flag: strconv.ParseInt: parsing "x": invalid syntax',
        ),
    ],
)
def test_a_wrong_command_line_is_refused_in_pflags_words(arguments, text):
    with pytest.raises(Invalid) as caught:
        parse(OPTIONS, arguments)
    assert str(caught.value) == text


def test_options_after_the_first_argument_belong_to_it_when_not_interspersed():
    assert parse(OPTIONS, ["-D", "image", "-D", "--nope"], interspersed=False) == (
        {"debug": True},
        ["image", "-D", "--nope"],
    )


def test_options_after_the_first_argument_are_options_when_interspersed():
    assert parse(OPTIONS, ["image", "-D"]) == ({"debug": True}, ["image"])


def test_two_dashes_end_the_options_and_one_dash_is_an_argument():
    assert parse(OPTIONS, ["-", "-D", "--", "--debug"]) == ({"debug": True}, ["-", "--debug"])


def test_the_help_text_names_each_option_and_keeps_to_its_width():
    text = described(OPTIONS, 50)
    assert all(f"--{option.name}" in text for option in OPTIONS)
    assert max(map(len, text.splitlines())) <= 50
