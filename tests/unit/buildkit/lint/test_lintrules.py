"""Each rule of the checks: what breaks it, in which words, and what does not; the cases are those of BuildKit's own."""

import pytest

from engine.daemon.buildkit.lint import checkoptions, lintrules
from engine.daemon.buildkit.lint.review import Around, Review
from engine.daemon.buildkit.lint.walk import review
from engine.daemon.dockerfile.ignore import Ignore
from engine.errors import Invalid, NotFound

BASES = {
    "busybox": {"os": "linux", "architecture": "amd64", "config": {"Env": ["PATH=/bin", "LANG=C"]}},
    "powershell": {"os": "linux", "architecture": "amd64", "config": {"Shell": ["pwsh"]}},
    "arm": {"os": "linux", "architecture": "arm64", "config": {}},
}


def base(name: str, platform: str) -> dict:
    """The document of one of the images above."""
    known = name.partition(":")[0]
    if known not in BASES:
        raise NotFound(f"{name}: not found")
    return BASES[known]


def reviewed(text: str, ignore: str | None = None, args: dict | None = None, **around) -> Review:
    """The review of a Dockerfile whose first line is the second of the text."""
    patterns = None if ignore is None else Ignore(ignore)
    settings = {"platform": "linux/amd64", "every": True, **around}
    return review(text.encode(), Around(base, args=args or {}, ignore=patterns, **settings))


def options_of(seen: Review) -> checkoptions.CheckOptions:
    """Those of the file's own directive."""
    return checkoptions.parse(seen.dockerfile.directives.get("check", "") if seen.dockerfile else "")


def warned(seen: Review) -> list[tuple[str, str, int]]:
    """What the rules say: name, detail, first line; by line."""
    found = [(one.rule.name, one.detail, one.first) for one in lintrules.warnings(seen, options_of(seen))]
    return sorted(found, key=lambda one: (one[2], one[1]))


DESCRIPTION = "Comment for {} should follow the format: `# {} <description>`"
MAJORITY = "Command '{}' should match the case of the command majority ({})"
SHELL_FORM = "JSON arguments recommended for {} to prevent unintended behavior related to OS signals"
ONLY_LAST = "Multiple {} instructions should not be used in the same stage because only the last one will be used"
SPACED = '"{0} key=value" should be used instead of legacy "{0} key value" format'
REDUNDANT = "Setting platform to predefined {} in FROM is redundant as this is the default behavior"
SECRET = 'Do not use ARG or ENV instructions for sensitive data ({} "{}")'
IGNORED = 'Attempting to {} file "{}" that is excluded by .dockerignore'
MAPPED = "EXPOSE instruction should not define an IP address or host-port mapping, found '{}'"
DEFAULT = "Default value for ARG {} results in empty or invalid base image name"
RELATIVE = 'Relative workdir "{}" can have unexpected results if the base image changes'

BROKEN = [
    ("FROM scratch AS Bad", [("StageNameCasing", "Stage name 'Bad' should be lowercase", 1)]),
    ("FROM scratch as b", [("FromAsCasing", "'as' and 'FROM' keywords' casing do not match", 1)]),
    ("from scratch AS b\nfrom scratch as c", [("FromAsCasing", "'AS' and 'from' keywords' casing do not match", 1)]),
    ("FROM scratch\nCOPY a \\\n\n.\nCOPY a \\\n.", [("NoEmptyContinuation", "Empty continuation line", 4)]),
    ("From scratch as b\nFROM scratch", [("ConsistentInstructionCasing", MAJORITY.format("From", "uppercase"), 1)]),
    ("FROM scratch\ncopy a b\nCOPY a b", [("ConsistentInstructionCasing", MAJORITY.format("copy", "uppercase"), 2)]),
    (
        "from scratch\nCOPY a b\nadd a b",
        [("ConsistentInstructionCasing", MAJORITY.format("COPY", "lowercase"), 2)],
    ),
    ("arg x\nFROM scratch", []),
    (
        "FROM scratch AS b\nFROM scratch AS b",
        [("DuplicateStageName", 'Duplicate stage name "b", stage names should be unique', 2)],
    ),
    (
        "FROM scratch AS scratch\nFROM scratch AS context",
        [
            ("ReservedStageName", f'Stage name should not use the same name as reserved stage "{name}"', line)
            for line, name in ((1, "scratch"), (2, "context"))
        ],
    ),
    ("FROM scratch\nCMD a", [("JSONArgsRecommended", SHELL_FORM.format("CMD"), 2)]),
    ("FROM scratch\nENTRYPOINT a", [("JSONArgsRecommended", SHELL_FORM.format("ENTRYPOINT"), 2)]),
    ('FROM scratch\nSHELL ["/sh"]\nCMD a', []),
    ('FROM scratch AS b\nSHELL ["/sh"]\nFROM b\nENTRYPOINT a', []),
    ("FROM powershell\nCMD a", []),
    (
        "FROM scratch\nMAINTAINER me",
        [("MaintainerDeprecated", "Maintainer instruction is deprecated in favor of using label", 2)],
    ),
    ("ARG base=scratch\nFROM $base", []),
    ("FROM --platform=$BUILDPLATFORM scratch", []),
    ("ARG DEBUG\nFROM scra${DEBUG:-tch}", []),
    ("ARG DEBUG=\nFROM scratch${DEBUG-@bogus}", []),
    (
        "ARG tag=latest\nFROM busybox:${tag}${version}",
        [("UndefinedArgInFrom", "FROM argument 'version' is not declared", 2)],
    ),
    ("FROM scratch\nWORKDIR app/", [("WorkdirRelativePath", RELATIVE.format("app/"), 2)]),
    ("FROM scratch AS a\nWORKDIR /app\nFROM a\nWORKDIR sub", []),
    ("FROM scratch\nARG foo\nCOPY a$foo .", []),
    ("FROM busybox AS base\nARG foo=a\nFROM base\nCOPY $foo .", []),
    ("FROM busybox\nCOPY $LANG .\nRUN echo $nobody", []),
    ("FROM busybox\nCOPY $foo .\nARG foo=b", [("UndefinedVar", "Usage of undefined variable '$foo'", 2)]),
    (
        "FROM busybox\nARG DIR_ASSETS=a\nCOPY $DIR_ASSET .",
        [("UndefinedVar", "Usage of undefined variable '$DIR_ASSET' (did you mean $DIR_ASSETS?)", 3)],
    ),
    (
        "FROM scratch\nENV PATH=$PAHT:/bin",
        [("UndefinedVar", "Usage of undefined variable '$PAHT' (did you mean $PATH?)", 2)],
    ),
    ("FROM scratch\nARG a=$b", [("UndefinedVar", "Usage of undefined variable '$b'", 2)]),
    ("FROM scratch\nCOPY <<E /x\n$b\nE", [("UndefinedVar", "Usage of undefined variable '$b'", 2)]),
    (
        'FROM scratch\nCMD ["a"]\nENTRYPOINT ["a"]\nCMD ["b"]\nENTRYPOINT ["b"]',
        [
            ("MultipleInstructionsDisallowed", ONLY_LAST.format("CMD"), 2),
            ("MultipleInstructionsDisallowed", ONLY_LAST.format("ENTRYPOINT"), 3),
        ],
    ),
    (
        'FROM scratch\nHEALTHCHECK CMD ["a"]\nHEALTHCHECK NONE',
        [("MultipleInstructionsDisallowed", ONLY_LAST.format("HEALTHCHECK"), 2)],
    ),
    ('FROM scratch AS a\nCMD ["a"]\nFROM a\nCMD ["b"]', []),
    (
        "FROM scratch\nENV a b\nLABEL key value",
        [
            ("LegacyKeyValueFormat", SPACED.format("ENV"), 2),
            ("LegacyKeyValueFormat", SPACED.format("LABEL"), 3),
        ],
    ),
    ("FROM scratch\nENV a=b c=d\nLABEL key=value", []),
    (
        "FROM --platform=$TARGETPLATFORM scratch",
        [("RedundantTargetPlatform", REDUNDANT.format("$TARGETPLATFORM"), 1)],
    ),
    (
        "FROM --platform=${TARGETPLATFORM} scratch",
        [("RedundantTargetPlatform", REDUNDANT.format("${TARGETPLATFORM}"), 1)],
    ),
    (
        "FROM --platform=linux/amd64 scratch",
        [
            (
                "FromPlatformFlagConstDisallowed",
                'FROM --platform flag should not use constant value "linux/amd64"',
                1,
            )
        ],
    ),
    ("FROM --platform=linux/amd64 scratch AS my_amd64_stage", []),
    ("FROM --platform=linux/amd64 scratch AS linux", []),
    (
        "FROM arm",
        [
            (
                "InvalidBaseImagePlatform",
                'Base image arm was pulled with platform "linux/arm64", expected "linux/amd64" for current build',
                1,
            )
        ],
    ),
    (
        "FROM scratch\nEXPOSE 80/TcP 8080/TCP 8080/udp",
        [
            ("ExposeProtoCasing", f"Defined protocol '{port}' in EXPOSE instruction should be lowercase", 2)
            for port in ("80/TcP", "8080/TCP")
        ],
    ),
    (
        "FROM scratch\nEXPOSE 127.0.0.1:80:80 [::1]:8080:8080 5000:5000 8000",
        [
            ("ExposeInvalidFormat", MAPPED.format(port), 2)
            for port in ("127.0.0.1:80:80", "5000:5000", "[::1]:8080:8080")
        ],
    ),
]


@pytest.mark.parametrize(("text", "expected"), BROKEN, ids=[text.replace("\n", "|")[:60] for text, _ in BROKEN])
def test_what_breaks_a_rule_and_what_does_not(text: str, expected: list) -> None:
    assert warned(reviewed(text)) == expected


def test_secrets_are_known_by_whole_words_and_taken_back_by_others() -> None:
    text = """FROM scratch
ARG SECRET_PASSPHRASE
ENV SUPER_Secret=foo
ENV password=bar secret=baz
ARG super_duper_secret_token=foo auth=bar
ENV apikey=bar sunflower=foo monkey=x
ENV git_key=
ENV PUBLIC_KEY=
ARG public_token
ARG SECRET_PASSPHRASE_FILE
ENV password_file=bar secret_File=baz
ARG AUTH_MODULE_VERSION
# check=skip=SecretsUsedInArgOrEnv // allow secret in environment
ENV password=bar
# check=skip=all // is local to only this instruction
ARG password
"""
    assert [(detail, line) for _, detail, line in warned(reviewed(text))] == [
        (SECRET.format("ARG", "SECRET_PASSPHRASE"), 2),
        (SECRET.format("ENV", "SUPER_Secret"), 3),
        (SECRET.format("ENV", "password"), 4),
        (SECRET.format("ENV", "secret"), 4),
        (SECRET.format("ARG", "auth"), 5),
        (SECRET.format("ARG", "super_duper_secret_token"), 5),
        (SECRET.format("ENV", "apikey"), 6),
        (SECRET.format("ENV", "git_key"), 7),
    ]


DEFAULTS = [
    ("ARG VERSION\nFROM busybox:$VERSION", {"VERSION": "latest"}, "busybox:$VERSION"),
    ("ARG IMAGE\nFROM $IMAGE", {"IMAGE": "busybox"}, "$IMAGE"),
    ('ARG SFX="box:"\nFROM busy${SFX}', {"SFX": "box:latest"}, "busy${SFX}"),
    ("ARG VERSION=latest\nFROM busybox:$VERSION", {"VERSION": "latest"}, None),
    ("ARG VARIANT\nFROM busybox:stable${VARIANT}", {"VARIANT": "-musl"}, None),
]


@pytest.mark.parametrize(("text", "args", "name"), DEFAULTS, ids=[text for text, _, _ in DEFAULTS])
def test_bases_that_need_an_argument(text: str, args: dict, name: str | None) -> None:
    expected = [("InvalidDefaultArgInFrom", DEFAULT.format(name), 2)] if name else []
    assert warned(reviewed(text, args=args)) == expected


IGNORES = [
    ("FROM scratch\nCOPY Dockerfile .\nADD Dockerfile /x", "\nDockerfile\n", [("Copy", 2), ("Add", 3)]),
    ("FROM scratch AS b\nCOPY a /foobar\nFROM b\nCOPY --from=b /foobar /c", "foobar", []),
    ("FROM scratch\nCOPY ./Dockerfile .", "**\n!Dockerfile", []),
    ("FROM scratch\nCOPY . .", "Dockerfile", []),
    ("FROM scratch\nADD https://x/Dockerfile .", "**/Dockerfile", []),
]


@pytest.mark.parametrize(("text", "ignore", "expected"), IGNORES, ids=[text for text, _, _ in IGNORES])
def test_sources_that_the_dockerignore_leaves_out(text: str, ignore: str, expected: list) -> None:
    wanted = [("CopyIgnoredFile", IGNORED.format(verb, "Dockerfile"), line) for verb, line in expected]
    assert warned(reviewed(text, ignore=ignore)) == wanted


def test_the_whole_context_is_only_left_out_by_what_leaves_out_everything() -> None:
    assert warned(reviewed("FROM scratch\nCOPY . .", ignore="*")) == [
        ("CopyIgnoredFile", IGNORED.format("Copy", "."), 2)
    ]


def test_descriptions_begin_with_what_they_describe() -> None:
    right = """# check=skip=all;experimental=InvalidDefinitionDescription
# foo this is the foo
ARG foo=bar

# base this is the base image
FROM scratch AS base

# baz this is the baz
ARG foo=baz bar=qux baz=quux
#
ARG bit=bat

# comment for something other than ARG or FROM
COPY Dockerfile .
"""
    assert warned(reviewed(right)) == []
    wrong = """# check=experimental=InvalidDefinitionDescription
# bar this is the bar
ARG foo=bar
# BasE this is the BasE image
FROM scratch AS base
# definitely a bad comment
ARG foo=baz bar=qux
"""
    assert [(detail, line) for _, detail, line in warned(reviewed(wrong))] == [
        (DESCRIPTION.format("ARG", "foo"), 3),
        (DESCRIPTION.format("FROM", "base"), 5),
        (DESCRIPTION.format("ARG", "<arg_key>"), 7),
    ]
    assert warned(reviewed(wrong.partition("\n")[2])) == []


@pytest.mark.parametrize(
    ("comment", "rule"),
    [
        ("WORKDIR app", "WorkdirRelativePath"),
        ("CMD a", "JSONArgsRecommended"),
        ("MAINTAINER me", "MaintainerDeprecated"),
        ("ENV a b", "LegacyKeyValueFormat"),
        ("COPY $x .", "UndefinedVar"),
    ],
)
def test_a_comment_switches_a_rule_off_for_one_instruction(comment: str, rule: str) -> None:
    assert [name for name, _, _ in warned(reviewed(f"FROM scratch\n{comment}"))] == [rule]
    assert warned(reviewed(f"FROM scratch\n# check=skip={rule}\n{comment}")) == []
    assert len(warned(reviewed(f"FROM scratch\n# check=skip={rule};;;\n{comment}"))) == 1


def test_only_stages_that_are_needed_are_judged_unless_all_are_asked_for() -> None:
    text = "FROM scratch AS a\nCOPY $foo .\nFROM scratch AS b\nCOPY $bar ."
    assert [line for _, _, line in warned(reviewed(text))] == [2, 4]
    assert [line for _, _, line in warned(reviewed(text, every=False))] == [4]
    assert [line for _, _, line in warned(reviewed(text, every=False, target="a"))] == [2]


FAULTS = [
    (
        "FROM scratch AS Bad\nMAINTAINER me\nBADCMD",
        "dockerfile parse error on line 3: unknown instruction: BADCMD",
        3,
        ["StageNameCasing", "MaintainerDeprecated"],
    ),
    ("FROM scratch\nCOPY <<E /x\na", "unterminated heredoc", 2, []),
    ("RUN x", "no build stage in current context", 1, []),
    ("ARG x", "dockerfile contains no stages to build", 1, []),
    ("FROM $x", "base name ($x) should not be blank", 1, ["InvalidDefaultArgInFrom", "UndefinedArgInFrom"]),
    (
        "FROM --platform=$BULIDPLATFORM scratch",
        "empty platform value from expression $BULIDPLATFORM (did you mean BUILDPLATFORM?)",
        1,
        ["UndefinedArgInFrom"],
    ),
    ("FROM scratch\nCMD a\nFROM nobody", "nobody: not found", 3, ["JSONArgsRecommended"]),
    ("FROM scratch\nCMD a\nENV b=${c?no}", 'failed to process "${c?no}": c: no', 3, ["JSONArgsRecommended"]),
]


@pytest.mark.parametrize(("text", "fault", "line", "names"), FAULTS, ids=[text for text, _, _, _ in FAULTS])
def test_what_comes_before_a_fault_is_judged(text: str, fault: str, line: int, names: list) -> None:
    seen = reviewed(text)
    assert seen.fault is not None
    assert (seen.fault.reason, seen.fault.first) == (fault, line)
    assert [name for name, _, _ in warned(seen)] == names


@pytest.mark.parametrize(
    ("text", "skipped", "error"),
    [
        ("skip=all", {"all"}, False),
        (" skip = A , B ; error = true ", {"A", "B"}, True),
        ("error=1", set(), True),
        ("", set(), False),
    ],
)
def test_options(text: str, skipped: set, error: bool) -> None:
    read = checkoptions.parse(text)
    assert (read.skip, read.error) == (skipped, error)


@pytest.mark.parametrize("text", ["skip", "skips=a", "error=maybe", "skip=a;error=true;experimental=b;skip=c"])
def test_options_that_are_none(text: str) -> None:
    if text.count(";") == 3:  # what follows the third is part of its value, as with BuildKit
        assert checkoptions.parse(text).experimental == {"b;skip=c"}
        return
    with pytest.raises(Invalid, match="check option"):
        checkoptions.parse(text)


def test_each_rule_is_broken_by_some_case() -> None:
    told = {rule for _, expected in BROKEN for rule, _, _ in expected}
    others = {"SecretsUsedInArgOrEnv", "InvalidDefaultArgInFrom", "CopyIgnoredFile", "InvalidDefinitionDescription"}
    assert {rule.name for rule in lintrules.TABLE} == told | others
