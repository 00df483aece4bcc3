"""The rules in which the two builders differ: each row of the table, on both sides."""

import re

import pytest

from engine.daemon.builder import bases, stages, stepnodes
from engine.daemon.builder.arguments import Arguments
from engine.daemon.builder.converting import Base, Built, Conversion
from engine.daemon.builder.dialect import BUILDKIT, CLASSIC, Dialect
from engine.daemon.builder.localtree import Local
from engine.daemon.builder.options import Options
from engine.daemon.builder.run import Running, Shell
from engine.daemon.builder.state import State
from engine.daemon.builder.stepnodes import AskedRun, Surroundings
from engine.daemon.builder.workdir import MakingDirectory
from engine.daemon.dockerfile import commands
from engine.daemon.images import platform as platforms
from engine.daemon.images.image import Image
from engine.daemon.images.verbs import pull
from engine.daemon.jsontext import Object
from engine.dataclass import replace
from engine.errors import Invalid, NotFound, Unavailable
from tests.harness.parts import Parts, image


def run(dialect: Dialect, text: str, env: tuple[str, ...] = (), **args: str | None) -> AskedRun:
    """The last RUN of a Dockerfile of one stage, whose base has these variables."""
    dockerfile, plan, arguments = stages.prepare(text.encode(), "Dockerfile", Options(args=args), dialect)
    state = State(arguments.of_stage(), platforms.host(), dockerfile.escape)
    state.config = {"Env": list(env)}
    for instruction in plan.every[0].steps:
        command = state.read(instruction, "\\")
        if isinstance(command, commands.Run):
            around = Surroundings(Local(-1, "context"), lambda _name: None, {})
            asked = stepnodes.asked_run(around, state, command)
        else:
            state.configure(command)
    return asked


# (Dockerfile after its FROM, arguments of the client, what X is with the classic builder, and with BuildKit)
ARGUMENTS: tuple[tuple[str, dict[str, str | None], str | None, str | None], ...] = (
    ("ENV X=env\nARG X=arg", {}, "env", "arg"),
    ("ENV X=env\nARG X", {}, "env", "env"),
    ("ENV X=env\nARG X", {"X": "given"}, "env", "given"),
    ("ARG X=arg\nENV X=env", {"X": "given"}, "env", "env"),
    ("ARG X=1\nENV X=2\nARG X=3", {}, "2", "3"),
    ("ARG X=1\nARG X=2", {}, "2", "2"),
    ("ARG X=1\nARG X=${X}2", {}, "12", "12"),
    ("ARG X=2\nARG X", {}, None, "2"),
    ("ARG A=1 X=${A}2", {}, "2", "12"),
    ("ARG A=1 X=${A}2", {"A": "g"}, "2", "g2"),
    ("ARG X=def", {"X": ""}, "", ""),
    ("ARG X=${V:?needed}", {"X": "given"}, "refused", "given"),
    ("ARG X=${V:?needed}", {}, "refused", "refused"),
    ("ARG BASE=arg\nENV X=$BASE", {}, "base", "arg"),
    ("ARG N=X\nARG $N=1", {}, "1", None),
    ("ARG X", {"X": None}, None, None),
)


@pytest.mark.parametrize(("text", "given", "classic", "buildkit"), ARGUMENTS)
def test_arguments_in_turn(text: str, given: dict[str, str | None], classic: str | None, buildkit: str | None) -> None:
    for dialect, expected in ((CLASSIC, classic), (BUILDKIT, buildkit)):
        try:
            env = run(dialect, f"FROM b\n{text}\nRUN x", ("BASE=base",), **given).command.env
        except Invalid:
            assert expected == "refused"
            continue
        assert [entry for entry in env if entry.startswith("X=")] == ([] if expected is None else [f"X={expected}"])


def test_arguments_in_turn_before_the_first_from() -> None:
    text = "ARG A=1 B=${A}2\nARG X=${V:?needed}\nFROM b\nARG B\nARG X\nRUN x"
    assert {"B=12", "X=given"} <= set(run(BUILDKIT, text, X="given").command.env)
    with pytest.raises(Invalid, match="needed"):
        run(CLASSIC, text, X="given")
    assert "B=2" in run(CLASSIC, text.replace(":?", ":-"), X="given").command.env


def test_arguments_in_turn_replace_a_variable_of_the_base() -> None:
    text = "FROM b\nARG PATH=\nRUN x"
    assert run(BUILDKIT, text, ("PATH=/bin",)).command.env == ("PATH=",)
    assert run(CLASSIC, text, ("PATH=/bin",)).command.env == ("PATH=/bin",)


def test_arguments_in_turn_are_told_in_the_order_of_the_file() -> None:
    text = "FROM b\nARG z v=1\nARG w=2\nENV w=3\nARG v=4\nRUN x"
    assert run(BUILDKIT, text).shown == "|3 z= v=4 w=3 /bin/sh -c x"
    assert run(CLASSIC, text).shown == "|1 v=4 /bin/sh -c x"


def test_proxies_twice() -> None:
    text = "FROM b\nENV https_proxy=own\nENV SEEN=[$http_proxy]\nRUN x"
    given = {"http_proxy": "h", "HTTPS_PROXY": "s", "no_proxy": ""}
    asked = run(BUILDKIT, text, **given)
    both = {"http_proxy=h", "HTTP_PROXY=h", "HTTPS_PROXY=s", "https_proxy=s"}
    assert set(asked.command.env) == {*both, "SEEN=[]"}
    assert asked.command.unknown == {each.partition("=")[0] for each in both}
    assert asked.shown == "/bin/sh -c x"
    asked = run(CLASSIC, text, **given)
    assert set(asked.command.env) == {"SEEN=[h]", "https_proxy=own", "http_proxy=h", "HTTPS_PROXY=s", "no_proxy="}


def test_proxies_twice_that_an_arg_names_decide_the_outcome() -> None:
    asked = run(BUILDKIT, "FROM b\nARG http_proxy\nRUN x $http_proxy", http_proxy="h")
    assert set(asked.command.env) == {"http_proxy=h", "HTTP_PROXY=h"} and asked.command.unknown == {"HTTP_PROXY"}
    assert asked.shown == "|1 http_proxy=h /bin/sh -c x $http_proxy"


def test_other_systems() -> None:
    for dialect in (BUILDKIT, CLASSIC):
        for system, path in (("linux", True), ("darwin", True), ("freebsd", True), ("windows", False)):
            state = State(Arguments({}, {}, dialect), platforms.parse(f"{system}/amd64"))
            if dialect is CLASSIC and system != "linux":
                with pytest.raises(Invalid, match="operating system is not supported"):
                    state.begin_with_nothing()
                continue
            state.begin_with_nothing()
            assert bool(state.config.get("Env")) is path
            state.configure(commands.Cmd(shell="x"))
            assert state.config["Cmd"] == ["/bin/sh", "-c", "x"] if path else ["cmd", "/S", "/C", "x"]


class Images:
    """An image store with an image for one platform, and one for several."""

    def find(self, name: str, platform: str | None) -> Image:
        """An image that has the platform, or any."""
        if platform:
            raise NotFound(name)
        return image(id="sha256:a", manifest="sha256:a" if name == "one" else "sha256:b")


def test_lone_platforms(monkeypatch: pytest.MonkeyPatch) -> None:
    pulls: list[bool] = []
    monkeypatch.setattr(pull, "pull", lambda *_asked, lone, hidden: pulls.append(lone))

    def find(name: str, dialect: Dialect) -> Image:
        return bases.find(Parts(images=Images()), name, "linux/s390x", Options(), print, {}, bool, dialect)

    assert find("one", BUILDKIT) is not None and not pulls
    for name, dialect in (("several", BUILDKIT), ("one", CLASSIC)):
        assert find(name, dialect) is None
    assert pulls == [True, False]


def test_hidden_bases(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the lists show then is in tests/clients/test_buildx_bases.py."""
    pulls: list[bool] = []
    monkeypatch.setattr(pull, "pull", lambda *_asked, lone, hidden: pulls.append(hidden))
    for dialect in (BUILDKIT, CLASSIC):
        bases.find(Parts(images=Images()), "several", "linux/s390x", Options(), print, {}, bool, dialect)
    assert pulls == [True, False]


def test_a_system_may_have_a_version_and_features() -> None:
    text = "FROM scratch\nARG TARGETPLATFORM TARGETOS TARGETOSVERSION\nRUN x"
    options = Options(platform="windows(10.0%2B1+b+a)/amd64")
    _, _, arguments = stages.prepare(text.encode(), "Dockerfile", options, BUILDKIT)
    assert arguments.of_from().get("TARGETOSVERSION") == "10.0+1"
    assert arguments.of_from().get("TARGETOS") == "windows"
    assert arguments.of_from().get("TARGETPLATFORM") == "windows(10.0%2B1+a+b)/amd64"


def test_commands_repeat() -> None:
    """An image is what the classic builder's commands stand on, its files are what BuildKit's do."""
    for dialect in (BUILDKIT, CLASSIC):
        one, other = (Shell(image=image, repeats=dialect.commands_repeat).decides() for image in ("a", "b"))
        assert (one != other) is dialect.commands_repeat


def test_empty_text() -> None:
    assert run(BUILDKIT, "FROM b\nRUN").command.argv == ("/bin/sh", "-c", "")
    assert run(CLASSIC, "FROM b\nRUN").command.argv == ("/bin/sh", "-c")


def test_empty_text_of_what_a_container_runs() -> None:
    for dialect, expected in ((BUILDKIT, (["/bin/sh", "-c", ""],) * 2), (CLASSIC, (["/bin/sh", "-c"], None))):
        state = State(Arguments({}, {}, dialect), platforms.host())
        for command in (commands.Cmd(shell=""), commands.Entrypoint(shell="")):
            state.configure(command)
        assert (state.config["Cmd"], state.config["Entrypoint"]) == expected
        state.configure(commands.Entrypoint(argv=()))
        assert state.config["Entrypoint"] is None


def test_targets_numbered() -> None:
    for dialect in (BUILDKIT, CLASSIC):
        for target, words in (
            ("0", 'target stage "0" could not be found$'),
            ("on", "found \\(did you mean one\\?\\)$"),
        ):
            asked = b"FROM b AS one\nFROM b", "Dockerfile", Options(target=target), dialect
            if dialect is CLASSIC and target == "0":
                assert stages.prepare(*asked)[1].every[-1].index == 0
                continue
            with pytest.raises(Invalid, match=words if dialect is BUILDKIT else "could not be found$"):
                stages.prepare(*asked)


def test_stage_names_exact() -> None:
    for dialect in (BUILDKIT, CLASSIC):
        _, plan, _ = stages.prepare(b"FROM b AS One\nFROM One\nFROM one", "Dockerfile", Options(), dialect)
        found = [stages.Earlier(plan.every, dialect).below(name, 2) is not None for name in ("one", "One", "two")]
        assert found == [True, dialect is CLASSIC, False]


def evaluated(dialect: Dialect, text: str, config: Object | None = None, **options: object) -> Built:
    """The last stage of a Dockerfile whose base images have this config; without the door of either builder."""
    chosen = Options(**options)
    base = Base(None, {"os": "linux", "architecture": "s390x", "config": config or {}})
    local = Local(-1, "context")
    read = stages.prepare(text.encode(), "Dockerfile", chosen, dialect)
    return Conversion(*read, chosen, local, lambda _name, _platform: base, platforms.host()).target()


def test_stages_needed() -> None:
    for dialect, expected in ((BUILDKIT, [1]), (CLASSIC, [0, 1])):
        plan = stages.prepare(b"FROM b\nFROM b", "Dockerfile", Options(), dialect)[1]
        assert [stage.index for stage in plan.stages] == expected


def test_stages_inherit() -> None:
    text = "FROM b AS one\nARG X=1\nMAINTAINER me\nENV Y=2\nFROM one\nLABEL x=$X y=$Y"
    for dialect, x, author in ((BUILDKIT, "1", "me"), (CLASSIC, "", "")):
        state = evaluated(dialect, text).state
        assert (state.config["Labels"], state.author) == ({"x": x, "y": "2"}, author)


def test_stage_names_once() -> None:
    text = "FROM b AS one\nENV A=1\nFROM b AS ONE\nFROM one"
    assert not any(each.startswith("A=") for each in evaluated(BUILDKIT, text).state.config["Env"])
    with pytest.raises(Invalid, match=r"^one stage name already used$"):
        evaluated(CLASSIC, text)


def test_stages_named_first() -> None:
    """Before the fault of a step of the first one."""
    text = "FROM b\nCOPY --from=9 a /\nFROM --platform=a/b/c/d b"
    for dialect, words in ((BUILDKIT, "failed to parse platform a/b/c/d"), (CLASSIC, "index out of bounds")):
        with pytest.raises(Invalid, match=words):
            evaluated(dialect, text, target="")
    text = f"FROM {'a' * 64}"
    assert evaluated(CLASSIC, text)
    with pytest.raises(Invalid, match="failed to parse stage name"):
        evaluated(BUILDKIT, text)


def test_a_platform_that_is_none_is_refused_by_both() -> None:
    for dialect in (BUILDKIT, CLASSIC):
        for written, words in (
            ("a/b/c/d", "failed to parse platform a/b/c/d: "),
            ("$X", r"empty platform value .* \$X"),
        ):
            with pytest.raises(Invalid, match=words):
                evaluated(dialect, f"FROM --platform={written} b")


def test_root_named() -> None:
    for dialect, expected in ((BUILDKIT, "/"), (CLASSIC, None)):
        assert evaluated(dialect, "FROM scratch").state.config.get("WorkingDir") == expected


def test_emulators_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platforms, "host", lambda: platforms.parse("linux/riscv64"))
    assert evaluated(CLASSIC, "FROM b\nRUN x").tree is not None
    with pytest.raises(Unavailable, match="RUN for linux/s390x is not possible"):
        evaluated(BUILDKIT, "FROM b\nRUN x")


def test_directories_owned() -> None:
    for dialect, expected in ((BUILDKIT, ("u", 5)), (CLASSIC, ("", None))):
        made = evaluated(dialect, "FROM b\nUSER u\nWORKDIR /d", args={"SOURCE_DATE_EPOCH": "5"}).files.node.operation
        assert isinstance(made, MakingDirectory) and (made.user, made.seconds) == expected


def test_steps_silent() -> None:
    for dialect, expected in ((BUILDKIT, ["ENV"]), (CLASSIC, ["ONBUILD", "ENV", "LABEL"])):
        found = evaluated(dialect, "FROM b\nONBUILD RUN x\nENV a=b", labels={"l": "v"})
        said = [re.sub(r".*#\(nop\)  ", "", entry.created_by).split()[0] for entry in found.entries]
        assert said == expected and found.state.config["Labels"] == {"l": "v"}


def test_args_escaped() -> None:
    for dialect in (BUILDKIT, CLASSIC):
        assert evaluated(dialect, "FROM b\nCMD x").state.config.get("ArgsEscaped", False) is dialect.args_escaped
        assert "ArgsEscaped" not in evaluated(dialect, "FROM b\nENTRYPOINT x").state.config


def test_nops_shown() -> None:
    text = "FROM b\nEXPOSE 80 53/udp\nHEALTHCHECK NONE\nWORKDIR /d\nRUN x"
    health = "{Test:[NONE] Interval:0s Timeout:0s StartPeriod:0s StartInterval:0s Retries:0}"
    for dialect, expected in (
        (BUILDKIT, ["EXPOSE [53/udp 80/tcp]", f"HEALTHCHECK {health}", "WORKDIR /d", "RUN /bin/sh -c x # buildkit"]),
        (
            CLASSIC,
            [*(f"/bin/sh -c #(nop) {line}" for line in (" EXPOSE 53/udp 80", f" HEALTHCHECK &{health}", "WORKDIR /d"))]
            + ["/bin/sh -c x"],
        ),
    ):
        dialect = replace(dialect, emulators_needed=False)
        assert [entry.created_by for entry in evaluated(dialect, text).entries] == expected


def test_volumes_dropped() -> None:
    for dialect, expected in ((BUILDKIT, ()), (CLASSIC, ("/v",))):
        assert run(dialect, "FROM b\nVOLUME /v\nRUN x").command.volumes == expected


def test_insecure_steps() -> None:
    assert run(BUILDKIT, "FROM b\nRUN --security=insecure x").command.security == "insecure"
    with pytest.raises(Invalid, match="--security=insecure is not allowed"):
        run(CLASSIC, "FROM b\nRUN --security=insecure x")


def test_hostname() -> None:
    """It is what a container has whose build says none."""
    for dialect, expected in ((BUILDKIT, "buildkitsandbox"), (CLASSIC, "")):
        dialect = replace(dialect, emulators_needed=False)
        operation = evaluated(dialect, "FROM b\nRUN x").files.node.operation
        assert isinstance(operation, Running) and operation.shell.hostname == expected


@pytest.mark.parametrize(
    ("text", "buildkit", "classic"),
    [
        ("", "the Dockerfile cannot be empty", r"the Dockerfile \(Dockerfile\) cannot be empty"),
        ("ARG X=1", "dockerfile contains no stages to build", "no build stage in current context"),
        ("ARG X=1\nRUN x", "no build stage in current context", "no build stage in current context"),
        ("FROM b\nRUN []", "failed to marshal LLB definition: arguments are required", "no command specified"),
    ],
)
def test_refusals(text: str, buildkit: str, classic: str) -> None:
    for dialect, words in ((BUILDKIT, buildkit), (CLASSIC, classic)):
        with pytest.raises(Invalid, match=f"^{words}$"):
            run(dialect, text)


def test_each_row_has_a_test_of_both_sides_and_a_source() -> None:
    for row in Dialect.__annotations__:
        assert any(name.startswith(f"test_{row}") for name in globals()), row
        assert f"{row}:" in (Dialect.__doc__ or "")
        assert getattr(CLASSIC, row) != getattr(BUILDKIT, row), row
    assert (Dialect.__doc__ or "").count("Source: ") >= len(Dialect.__annotations__)
