"""A Dockerfile as nodes of the graph: which there are, what they stand on, their names, and the image's history."""

import time

import pytest

from engine.daemon.builder import historytext, stages
from engine.daemon.builder.converting import Base, Built, Conversion, names_of
from engine.daemon.builder.dialect import BUILDKIT
from engine.daemon.builder.graph.node import Node, reachable
from engine.daemon.builder.localtree import Loading, Local
from engine.daemon.builder.options import Options
from engine.daemon.builder.pulled import Pulled
from engine.daemon.builder.run import Running
from engine.daemon.dockerfile import commands
from engine.daemon.images import platform as platforms
from engine.daemon.jsontext import Object
from engine.errors import EngineError, Invalid, Unavailable
from tests.harness.parts import image

HOST = platforms.host()


def converted(text: str, config: Object | None = None, prefix: str = "", **options: object) -> tuple[Conversion, Built]:
    """The conversion of a Dockerfile whose base images have this config."""
    chosen = Options(**options)
    dockerfile, plan, arguments = stages.prepare(text.encode(), "Dockerfile", chosen, BUILDKIT)
    local = Local(-1, "context")
    local.loading = Node(Loading(local, lambda: -1)).output()

    def find(name: str, platform: str) -> Base:
        if name == "absent":
            raise Invalid("no such image")
        document = {"os": HOST.os, "architecture": HOST.architecture, "config": config or {}, "history": [{}]}
        made = image(id=f"sha256:{name}", config={**document, "rootfs": {"diff_ids": [f"sha256:{name}"]}})
        return Base(Node(Pulled(made, f"{name}@{platform}")).output(), document)

    conversion = Conversion(dockerfile, plan, arguments, chosen, local, find, HOST, prefix)
    return conversion, conversion.target()


def names(built: Built) -> list[str]:
    """The names of all nodes that the stage needs, without those that nobody is told of."""
    return [node.name for node in reachable([built.tree.node]) if node.name]


def test_a_stage_is_a_chain_of_nodes_with_the_places_of_its_steps() -> None:
    _, built = converted("FROM b\nENV a=1\nRUN x $a\nCOPY c /d\nWORKDIR /w\nCMD e")
    assert names(built) == ["[1/4] FROM b@", "[2/4] RUN x 1", "[3/4] COPY c /d", "[4/4] WORKDIR /w"]


def test_a_stage_that_stands_on_another_counts_its_own_steps() -> None:
    _, built = converted("FROM b AS one\nRUN x\nFROM one\nRUN y\nFROM scratch\nCOPY --from=1 a /\nCOPY --from=one a /")
    assert names(built) == [
        *("[one 1/2] FROM b@", "[one 2/2] RUN x", "[stage-1 1/1] RUN y"),
        *("[stage-2 1/2] COPY --from=1 a /", "[stage-2 2/2] COPY --from=one a /"),
    ]


def test_a_platform_is_part_of_the_names_where_there_are_several() -> None:
    _, built = converted("FROM b\nRUN x", prefix="linux/amd64")
    assert names(built) == ["[linux/amd64 stage-0 1/2] FROM b@", "[linux/amd64 stage-0 2/2] RUN x"]


def test_the_same_steps_of_two_stages_are_one_node() -> None:
    text = "FROM b AS one\nRUN x\nFROM b AS two\nRUN x\nFROM scratch\nCOPY --from=one a /a\nCOPY --from=two a /b"
    _, built = converted(text)
    assert sum("RUN x" in name for name in names(built)) == 1


def test_only_what_reads_the_context_waits_for_it() -> None:
    _, built = converted("FROM b\nRUN x\nCOPY a /\nRUN --mount=type=bind,target=/m y")
    needing = [
        node.name
        for node in reachable([built.tree.node])
        if any(isinstance(each.node.operation, Loading) for each in node.inputs)
    ]
    assert needing == ["[3/4] COPY a /", "[4/4] RUN --mount=type=bind,target=/m y"]
    _, without = converted("FROM b\nRUN x")
    assert not any(isinstance(node.operation, Loading) for node in reachable([without.tree.node]))


def test_triggers_of_a_base_come_first() -> None:
    _, built = converted("FROM b\nRUN y", {"OnBuild": ["RUN x", "ENV a=1"]})
    assert [entry.created_by for entry in built.entries] == [
        "RUN /bin/sh -c x # buildkit",
        "ENV a=1",
        "RUN /bin/sh -c y # buildkit",
    ]
    assert "OnBuild" not in built.state.config
    with pytest.raises(Invalid, match="FROM isn't allowed as an ONBUILD trigger"):
        converted("FROM b", {"OnBuild": ["FROM x"]})


def test_what_a_stage_leaves_in_its_config_and_history() -> None:
    """As with BuildKit: one on nothing has a directory, ONBUILD leaves no step, and WORKDIR / makes nothing."""
    _, built = converted("FROM scratch\nONBUILD RUN x\nWORKDIR /\nCMD x\nUSER u")
    assert [(entry.created_by, entry.node) for entry in built.entries] == [
        *(("WORKDIR /", None), ('CMD ["/bin/sh" "-c" "x"]', None), ("USER u", None)),
    ]
    assert (built.state.config["WorkingDir"], built.state.config["ArgsEscaped"]) == ("/", True)
    _, without = converted("FROM scratch\nENTRYPOINT x")
    assert without.state.config["WorkingDir"] == "/" and "ArgsEscaped" not in without.state.config
    assert built.state.config["OnBuild"] == ["RUN x"]


def test_arguments_reach_a_command_and_its_history() -> None:
    _, built = converted("ARG v=1\nFROM b\nARG v\nARG w=2\nENV w=3\nRUN x", args={"v": "9", "http_proxy": "p"})
    operation = built.tree.node.operation
    assert isinstance(operation, Running)
    assert {"v=9", "w=3", "http_proxy=p"} <= set(operation.command.env)
    assert operation.command.unknown == {"http_proxy", "HTTP_PROXY"}
    assert built.entries[-1].created_by == "RUN |2 v=9 w=3 /bin/sh -c x # buildkit"


def test_secrets_and_proxies_are_no_part_of_what_a_command_is() -> None:
    def key(**options: object) -> str:
        return converted("FROM b\nRUN --mount=type=secret,id=s,env=S x", **options)[1].tree.node.key

    assert key() == key(args={"http_proxy": "p"})


def test_no_cache_is_for_all_stages_or_for_some() -> None:
    text = "FROM b AS one\nRUN x\nFROM b AS two\nRUN y\nCOPY --from=one a /"

    def fresh(**options: object) -> list[str]:
        return [node.name for node in reachable([converted(text, **options)[1].tree.node]) if node.fresh]

    assert fresh() == []
    assert len(fresh(no_cache=True)) == 3
    assert fresh(no_cache_stages=("one",)) == ["[one 2/2] RUN x"]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("FROM b\nCOPY --from=2 a /", 2, "invalid from flag value 2: index out of bounds"),
        ("FROM b\nCOPY --from=0 a /", 2, "invalid from flag value 0: refers to current build stage"),
        ("FROM b\nCOPY --from=absent a /", 2, "invalid from flag value absent: no such image"),
        ("FROM absent", 1, "no such image"),
        ("ARG x\nFROM $x", 2, "should not be blank"),
        ("FROM b\nRUN --mount=type=tmpfs x", 2, 'invalid mount target "/"'),
        ("FROM b\nRUN --mount=target=/../ x", 2, 'invalid mount target "/"'),
        ("FROM b\nADD --checksum=sha256:a b /", 2, "checksum requires HTTP"),
        ("FROM b@sha256:0\nFROM b", 1, 'failed to parse stage name "b@sha256:0": '),
        ("FROM b AS One\nFROM One", 2, 'failed to parse stage name "One": invalid reference format: '),
        ("FROM --platform=$P b", 1, r"empty platform value from expression \$P"),
        ("FROM --platform=linux/a/b/c b", 1, 'failed to parse platform linux/a/b/c: "linux/a/b/c": cannot parse'),
    ],
)
def test_a_fault_belongs_to_its_line(text: str, line: int, words: str) -> None:
    dockerfile, plan, arguments = stages.prepare(text.encode(), "Dockerfile", Options(), BUILDKIT)

    def find(name: str, _platform: str) -> Base:
        if name == "absent":
            raise Invalid("no such image")
        return Base(None, {})

    conversion = Conversion(dockerfile, plan, arguments, Options(), Local(-1, "c"), find, HOST)
    with pytest.raises(EngineError, match=words):
        conversion.target()
    assert conversion.at is not None and conversion.at.line == line


def test_a_command_of_a_platform_that_the_host_cannot_run_is_refused() -> None:
    with pytest.raises(Unavailable, match="RUN for linux/s390x"):
        converted('FROM --platform=linux/s390x scratch\nRUN ["x"]')
    assert converted("FROM --platform=linux/s390x scratch\nCOPY x /")[1].state.platform.architecture == "s390x"


def test_the_images_of_stages_are_known_before_the_conversion() -> None:
    _, plan, _ = stages.prepare(b"FROM a AS x\nFROM x\nFROM --platform=$P b\nCOPY --from=1 y /", "D", Options())
    assert names_of(plan, lambda text: text.replace("$P", "linux/arm64")) == {"a": "", "b": "linux/arm64"}


@pytest.mark.parametrize(
    ("command", "config", "text"),
    [
        (commands.Expose(("80", "53/udp")), {}, "EXPOSE [80/tcp 53/udp]"),
        (commands.Env((("a", "b"), ("c", "d"))), {}, "ENV a=b c=d"),
        (commands.Cmd(argv=("a", "b")), {"Cmd": ["a", "b"]}, 'CMD ["a" "b"]'),
        (
            commands.Healthcheck(test=("CMD", "x")),
            {"Healthcheck": {"Test": ["CMD", "x"], "Interval": 10**9}},
            "HEALTHCHECK {Test:[CMD x] Interval:1s Timeout:0s StartPeriod:0s StartInterval:0s Retries:0}",
        ),
    ],
)
def test_the_words_of_history_are_buildkits(command: commands.Command, config: Object, text: str) -> None:
    assert historytext.of(command, config, BUILDKIT) == text


def test_the_words_of_a_copy() -> None:
    asked = commands.Copy(sources=("a", "b"), destination="/c/", chown="1:2", chmod="0700", parents=True)
    assert historytext.copy(asked) == "COPY --parents --chown=1:2 --chmod=0700 a b /c/ # buildkit"


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"FROM {'b' if not number else f's{number - 1}'} AS s{number}\nENV a=b\n" for number in range(2000)),
        "FROM b AS s\n"
        + "".join(f"FROM s AS s{number}\nCOPY --from=s{number - 1} a /\n" for number in range(1, 2000)).replace(
            "--from=s0 ", "--from=s "
        ),
        "FROM b\n" + "".join(f"RUN {number}\n" for number in range(4000)),
    ],
    ids=["stages on stages", "copies of stages", "steps"],
)
def test_a_long_file_is_converted_in_time(text: str) -> None:
    """Twice as long takes no more than three times as long, and some for what else goes on."""

    def seconds(lines: int) -> float:
        head = "".join(text.splitlines(keepends=True)[:lines])
        begun = time.thread_time()
        converted(head)
        return time.thread_time() - begun

    lines = text.count("\n")
    assert seconds(lines) < 3 * seconds(lines // 2) + 1.0


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("RUN echo $a \"$a\" '$a' $none ${none:-x} \\$a", "RUN echo 1 \"1\" '$a' $none ${none:-x} \\$a"),
        ("RUN --mount=type=secret,id=s,env=a echo $a", "RUN --mount=type=secret,id=s,env=a echo ****"),
        ("RUN echo $http_proxy $arg", "RUN echo $http_proxy given"),
        ("RUN echo ${a", "RUN echo ${a"),
        ('COPY "$a" $none /${arg}', "COPY 1  /given"),
        ("WORKDIR /$a", "WORKDIR /1"),
        (f"RUN {'$long' * 3}", f"RUN {'$long' * 3}"),
    ],
)
def test_a_step_is_shown_with_the_values_of_variables(line: str, shown: str) -> None:
    text = f"FROM b\nARG arg\nENV a=1 long={'x' * 2000}\n{line}\n"
    args = {"arg": "given", "http_proxy": "http://user:word@proxy"}
    assert names(converted(text, args=args)[1])[-1] == f"[2/2] {shown}"


def test_a_directory_has_the_time_that_the_client_names() -> None:
    """And a step of the client's own leaves no history."""
    text = "FROM scratch\nWORKDIR /d"
    _, built = converted(text, args={"SOURCE_DATE_EPOCH": "15"}, labels={"a": "b"})
    assert built.tree.node.operation.seconds == 15
    assert [entry.created_by for entry in built.entries] == ["WORKDIR /d"]
    assert built.state.config["Labels"] == {"a": "b"}
    for args in ({}, {"SOURCE_DATE_EPOCH": "x"}, {"SOURCE_DATE_EPOCH": "9" * 99}):
        assert converted(text, args=args)[1].tree.node.operation.seconds is None
