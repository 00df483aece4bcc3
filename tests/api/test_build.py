"""POST /build: stages, steps, what is said of them, and what is refused."""

import base64
import json
import time

import pytest

from tests.api import building
from tests.api.building import build, config_of, history, inspect, unique
from tests.harness.daemon import Daemon

PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NOP = "/bin/sh -c #(nop) "


def test_a_build_says_what_dockerd_says(builder: Daemon) -> None:
    """The stream of a classic builder, line by line; also a step that runs nothing has a container, but for COPY."""
    word = unique()
    files = {
        "Dockerfile": f'FROM busybox\nRUN echo {word}; echo err >&2\nENV A=b\nCOPY x /x\nCMD ["ls"]\n',
        "x": "data",
    }
    made = build(builder, files, t=["rec/b:1", "rec/c"], rm=1)
    ids = [each["Id"] for each in builder.request("GET", "/images/rec/b:1/history").json()]
    short = [each.removeprefix("sha256:")[:12] for each in reversed(ids)]
    lines = [line["stream"] for line in made.lines if "stream" in line]
    running = [line[len(" ---> Running in ") :] for line in lines if line.startswith(" ---> Running in ")]
    assert len(set(running)) == 3
    said = [line for line in lines if line not in (f"{word}\n", "\x1b[91merr\n\x1b[0m")]
    assert {f"{word}\n", "\x1b[91merr\n\x1b[0m"} <= set(lines)
    assert said == [
        "Step 1/5 : FROM busybox",
        "\n",
        f" ---> {short[0]}\n",
        f"Step 2/5 : RUN echo {word}; echo err >&2",
        "\n",
        f" ---> Running in {running[0]}",
        f" ---> Removed intermediate container {running[0]}",
        f" ---> {short[1]}\n",
        "Step 3/5 : ENV A=b",
        "\n",
        f" ---> Running in {running[1]}",
        f" ---> Removed intermediate container {running[1]}",
        f" ---> {short[2]}\n",
        "Step 4/5 : COPY x /x",
        "\n",
        f" ---> {short[3]}\n",
        'Step 5/5 : CMD ["ls"]',
        "\n",
        f" ---> Running in {running[2]}",
        f" ---> Removed intermediate container {running[2]}",
        f" ---> {short[4]}\n",
        f"Successfully built {short[4]}\n",
        "Successfully tagged rec/b:1\n",
        "Successfully tagged rec/c:latest\n",
    ]
    assert made.image == ids[0] == inspect(builder, "rec/c")["Id"]
    assert building.containers(builder) == []


def test_history_and_config_read_as_those_of_the_classic_builder(builder: Daemon) -> None:
    dockerfile = f"""FROM busybox
MAINTAINER me <x>
ENV A=1 B=$A
WORKDIR /made/here
WORKDIR deeper
LABEL "a b"="c d" e={unique()}
EXPOSE 90/udp 80
VOLUME /v /w
SHELL ["/bin/sh", "-ec"]
USER 33
STOPSIGNAL SIGINT
HEALTHCHECK --interval=5s CMD true
ONBUILD RUN true
CMD foo "b c"
ENTRYPOINT ["a", "b"]
"""
    image = build(builder, dockerfile).image
    steps = history(builder, image)[::-1][1:]
    assert steps[:4] == [
        f"{NOP} MAINTAINER me <x>",
        f"{NOP} ENV A=1 B=",
        f"{NOP}WORKDIR /made/here",
        f"{NOP}WORKDIR /made/here/deeper",
    ]
    assert steps[5:9] == [
        f"{NOP} EXPOSE 80 90/udp",
        f"{NOP} VOLUME [/v /w]",
        "/bin/sh -ec #(nop)  SHELL [/bin/sh -ec]",
        "/bin/sh -ec #(nop)  USER 33",
    ]
    assert steps[10].startswith("/bin/sh -ec #(nop)  HEALTHCHECK &{Test:[CMD-SHELL true] Interval:5s Timeout:0s")
    assert steps[12:] == [
        '/bin/sh -ec #(nop)  CMD ["/bin/sh" "-ec" "foo \\"b c\\""]',
        '/bin/sh -ec #(nop)  ENTRYPOINT ["a" "b"]',
    ]
    whole = inspect(builder, image)
    config = whole["Config"]
    assert whole["Author"] == "me <x>"
    assert config["Env"] == [PATH, "A=1", "B="]
    assert config["WorkingDir"] == "/made/here/deeper"
    assert config["Entrypoint"] == ["a", "b"] and config["Cmd"] == ["/bin/sh", "-ec", 'foo "b c"']
    assert set(config["ExposedPorts"]) == {"80/tcp", "90/udp"} and set(config["Volumes"]) == {"/v", "/w"}
    assert config["Shell"] == ["/bin/sh", "-ec"] and config["User"] == "33" and config["StopSignal"] == "SIGINT"
    assert config["Healthcheck"] == {"Test": ["CMD-SHELL", "true"], "Interval": 5_000_000_000}
    assert config["OnBuild"] == ["RUN true"]


def test_a_workdir_is_made_as_a_directory_of_roots_own_where_it_is_not_there(builder: Daemon) -> None:
    dockerfile = f"""FROM busybox
RUN ln -s /etc /link; : {unique()}
USER 33
WORKDIR /link/made/../other
RUN pwd; stat -c '%u:%a' /etc/other .; test ! -e /etc/made
WORKDIR /etc
RUN pwd
"""
    made = build(builder, dockerfile)
    assert made.output == ["/etc/other", "0:755", "0:755", "/etc"], made.text
    refused = build(builder, "FROM busybox\nWORKDIR /etc/passwd/x\n")
    assert refused.error == "Cannot mkdir: /etc/passwd/x is not a directory"


def test_an_entrypoint_takes_an_inherited_command_away_and_not_one_of_the_stage(builder: Daemon) -> None:
    inherited = build(builder, 'FROM busybox\nENTRYPOINT ["a"]\n')
    assert "Cmd" not in config_of(builder, inherited.image)
    own = build(builder, 'FROM busybox\nCMD ["c"]\nENTRYPOINT ["a"]\n')
    assert config_of(builder, own.image)["Cmd"] == ["c"]


def test_stages_stand_on_each_other_by_name_and_number(builder: Daemon) -> None:
    word = unique()
    dockerfile = f"""FROM busybox AS One
RUN echo {word} >/1
FROM scratch AS two
COPY --from=one /1 /two
FROM one
COPY --from=two /two /a
COPY --from=1 /two /b
COPY --from=busybox /etc/passwd /c
RUN cat /1 /a /b; head -n1 /c
"""
    made = build(builder, dockerfile)
    assert made.output[-4:] == [word, word, word, "root:x:0:0:root:/root:/bin/sh"], made.text
    assert " ---> \n" in made.text  # what stands on nothing has no id
    assert sum("aux" in line for line in made.lines) == 3


def test_all_stages_up_to_the_target_are_built(builder: Daemon) -> None:
    """As docker's classic builder does, also those that the target does not need; the image of each is told."""
    dockerfile = f"""FROM busybox AS base
LABEL l={unique()}
FROM busybox AS unneeded
LABEL n={unique()}
FROM base AS wanted
LABEL m=n
FROM wanted
RUN false
"""
    for target in ("wanted", "WANTED", "2"):
        made = build(builder, dockerfile, target=target)
        assert made.text.startswith("Step 1/6 : FROM busybox AS base\n"), made.text
        assert config_of(builder, made.image)["Labels"]["m"] == "n"
        assert sum("aux" in line for line in made.lines) == 3
    missing = build(builder, dockerfile, target="nope")
    assert (missing.answer.status, missing.error) == (400, 'target stage "nope" could not be found')


def test_triggers_of_a_stage_run_in_each_stage_that_stands_on_it(builder: Daemon) -> None:
    """And not in the stage itself, nor in one that stands on those."""
    word = unique()
    dockerfile = f"""FROM busybox AS one
ONBUILD RUN echo {word} >/some
ONBUILD ENV bar=baz
RUN test ! -e /some
FROM one AS two
RUN cat /some
FROM one
RUN cat /some; echo two
FROM two
ENV bar=none
RUN cat /some; echo $bar
"""
    made = build(builder, dockerfile)
    begun = "# Executing 2 build triggers"
    assert made.output == [begun, word, begun, word, "two", word, "none"], made.text
    assert sum("aux" in line for line in made.lines) == 4
    assert "OnBuild" not in config_of(builder, made.image)


def test_an_image_on_top_of_nothing(builder: Daemon) -> None:
    image = build(builder, {"Dockerfile": "FROM scratch\nCOPY x /\nLABEL a=b\n", "x": unique()}).image
    shown = inspect(builder, image)
    assert len(shown["RootFS"]["Layers"]) == 1 and "Parent" in shown
    assert build(builder, "FROM scratch\n").error == "No image was generated. Is your Dockerfile empty?"


def test_arguments_before_the_first_from_serve_the_froms(builder: Daemon) -> None:
    word = unique()
    dockerfile = f"""ARG tag=nope
ARG image=busybox:$tag
FROM $image
ARG tag
RUN echo {word} $tag "$image"
"""
    made = build(builder, dockerfile, buildargs={"tag": "latest"})
    assert made.output == [f"{word} latest "], made.text
    assert made.text.startswith("Step 1/5 : ARG tag=nope\nStep 2/5 : ARG image=busybox:$tag\nStep 3/5 : FROM $image\n")
    assert build(builder, "FROM $nothing\n").error == "base name ($nothing) should not be blank"


def test_arguments_are_in_the_environment_and_in_history_and_not_in_the_image(builder: Daemon) -> None:
    word = unique()
    dockerfile = f"FROM busybox\nARG X=1\nARG Y\nENV E=$X$Y\nENV Y=env\nRUN echo {word} $X $Y $E $http_proxy $Z\n"
    made = build(builder, dockerfile, buildargs={"Y": "2", "Z": "3", "W": "9", "http_proxy": "p", "X": None})
    assert made.output == [f"{word} 1 env 12 p", "[Warning] One or more build-args [W Z] were not consumed"], made.text
    assert history(builder, made.image)[0] == f"|1 X=1 /bin/sh -c echo {word} $X $Y $E $http_proxy $Z"
    assert config_of(builder, made.image)["Env"] == [PATH, "E=12", "Y=env"]


def test_a_proxy_that_no_arg_names_is_in_no_history_and_decides_nothing(builder: Daemon) -> None:
    """Only that there was one is seen, as dockerd has it."""
    word = unique()
    dockerfile = f"FROM busybox\nRUN echo {word} $HTTP_PROXY\n"
    made = build(builder, dockerfile, buildargs={"HTTP_PROXY": "http://u:one@p"})
    assert made.output == [f"{word} http://u:one@p"]
    assert history(builder, made.image)[0] == f"|0 /bin/sh -c echo {word} $HTTP_PROXY"
    assert build(builder, dockerfile, buildargs={"HTTP_PROXY": "http://u:two@p"}).image == made.image
    declared = dockerfile.replace("RUN", "ARG HTTP_PROXY\nRUN")
    first, second = (build(builder, declared, buildargs={"HTTP_PROXY": value}) for value in ("a", "b"))
    assert (first.ran, second.ran) == (1, 1)
    assert history(builder, second.image)[0] == f"|1 HTTP_PROXY=b /bin/sh -c echo {word} $HTTP_PROXY"


def test_a_maintainer_is_of_the_stage_that_names_one(builder: Daemon) -> None:
    dockerfile = f"FROM busybox AS a\nMAINTAINER me\nRUN : {unique()}\n"
    assert inspect(builder, build(builder, dockerfile).image)["Author"] == "me"
    assert not inspect(builder, build(builder, f"{dockerfile}FROM a\nENV A=b\n").image).get("Author")


def test_the_platforms_arguments_are_known(builder: Daemon) -> None:
    made = build(
        builder, f"FROM busybox\nARG TARGETOS\nARG BUILDPLATFORM\nRUN echo {unique()} $TARGETOS $BUILDPLATFORM\n"
    )
    assert made.output[0].split()[1:] == ["linux", f"linux/{inspect(builder, 'busybox')['Architecture']}"]


def test_labels_of_the_client_are_steps_of_the_last_stage(builder: Daemon) -> None:
    value = f"{unique()} $HOME 'q'"
    made = build(builder, "FROM busybox AS a\nFROM busybox\nLABEL z=1\n", labels={"b": value, "a": "1"})
    assert "Step 4/5 : LABEL a=1\n" in made.text
    assert config_of(builder, made.image)["Labels"] == {"z": "1", "a": "1", "b": value}


def test_triggers_of_the_base_run_first_and_only_once(builder: Daemon) -> None:
    word = unique()
    dockerfile = f"FROM busybox\nONBUILD RUN echo {word}\nONBUILD ENV K=v\nONBUILD COPY x /\n"
    build(builder, dockerfile, t="onbuild")
    made = build(builder, {"Dockerfile": f"FROM onbuild\nRUN cat /x; echo $K {word}", "x": "file\n"}, t="triggered")
    assert made.text.startswith("Step 1/2 : FROM onbuild\n# Executing 3 build triggers\n ---> Running in "), made.text
    assert made.output[-2:] == ["file", f"v {word}"] and word in made.output
    again = build(builder, f"FROM triggered\nLABEL l={word}\n")
    assert "Executing" not in again.text and "OnBuild" not in config_of(builder, again.image)
    build(builder, f"FROM busybox\nONBUILD LABEL a={word}\n", t="onbuild")
    assert "# Executing 1 build trigger\n" in build(builder, "FROM onbuild\nLABEL c=d\n").text


def test_a_failed_command_is_told_with_its_code(builder: Daemon) -> None:
    word = unique()
    for step, words, code in (
        (f"RUN echo {word}; exit 3", f"/bin/sh -c echo {word}; exit 3", 3),
        ('RUN ["sh", "-c", "exit 2"]', "sh -c exit 2", 2),
    ):
        made = build(builder, f"FROM busybox\n{step}\n", forcerm=1)
        text = f"The command '{words}' returned a non-zero code: {code}"
        assert made.lines[-1] == {"error": text, "errorDetail": {"code": code, "message": text}}
    missing = build(builder, 'FROM busybox\nRUN ["nosuch"]\n', forcerm=1)
    assert "executable file not found in $PATH" in missing.error and "code" not in missing.lines[-1]["errorDetail"]
    assert building.containers(builder) == []


def test_what_becomes_of_the_containers_of_steps(builder: Daemon) -> None:
    """rm=0 keeps them all, forcerm none, and without either those of failed steps stay, as with docker."""
    for query, step, left in (
        ({"rm": 0}, "true", 1),
        ({"rm": 1}, "true", 0),
        ({"rm": 1}, "false", 1),
        ({"forcerm": 1}, "false", 0),
        ({}, "true", 0),
    ):
        made = build(builder, f"FROM busybox\nRUN {step}; {step} {unique()}\n", **query)
        found = building.containers(builder)
        assert len(found) == left, (query, made.text)
        for container in found:
            assert builder.inspect(container)["State"]["Status"] == "exited"
            builder.remove(container)


def test_a_step_that_only_changes_the_config_leaves_a_container_that_never_ran(builder: Daemon) -> None:
    """It has the config of the step, and words that stand for its command."""
    word = unique()
    dockerfile = f'FROM busybox\nENTRYPOINT ["e"]\nLABEL l={word}\nVOLUME /v\nWORKDIR /w\nCOPY x .\n'
    made = build(builder, {"Dockerfile": dockerfile, "x": ""}, rm=0)
    assert made.text.count("Running in") == 4 and "Removed" not in made.text
    left = [builder.inspect(each) for each in building.containers(builder)]
    try:
        assert {each["State"]["Status"] for each in left} == {"created"}
        assert sorted((each["Path"], *each["Args"]) for each in left) == [
            ("e", "/bin/sh", "-c", "#(nop) ", 'ENTRYPOINT ["e"]'),
            ("e", "/bin/sh", "-c", "#(nop) ", f"LABEL l={word}"),
            ("e", "/bin/sh", "-c", "#(nop) ", "VOLUME [/v]"),
            ("e", "/bin/sh", "-c", "#(nop) WORKDIR /w"),
        ]
        assert {each["Config"]["Labels"].get("l", "") for each in left} == {"", word}
    finally:
        for each in left:
            builder.remove(each["Id"])


def test_a_config_that_no_container_can_have_ends_a_build_without_one(builder: Daemon) -> None:
    """As with dockerd, which makes the directory and the volumes as it makes the container."""
    for step, words in (
        ("WORKDIR /etc/passwd", "Cannot mkdir: /etc/passwd is not a directory"),
        ("VOLUME /etc/passwd", "cannot mount volume over existing file, file exists /etc/passwd"),
    ):
        made = build(builder, f"FROM busybox\n{step}\n", rm=1)
        assert made.error == words and "Running in" not in made.text
    assert building.containers(builder) == []


def test_a_quiet_build_says_its_image_alone_and_all_when_it_fails(builder: Daemon) -> None:
    made = build(builder, f"FROM busybox\nRUN echo {unique()}\n", q=1, t="quiet")
    assert made.lines == [{"stream": f"{inspect(builder, 'quiet')['Id']}\n"}]
    word = unique()
    failed = build(builder, f"FROM busybox\nRUN echo {word}; false\n", q=1, forcerm=1)
    assert failed.text.startswith("Step 1/2 : FROM busybox\n") and f"{word}\n" in failed.text
    assert failed.lines[-1]["errorDetail"]["code"] == 1
    early = build(builder, "FROM busybox\nCOPY\n", q=1)
    assert early.answer.status == 400


def test_ids_are_told_to_clients_that_know_them(builder: Daemon) -> None:
    dockerfile = f"FROM busybox\nLABEL l={unique()}\n"
    assert not any("aux" in line for line in build(builder, dockerfile, api="/v1.29").lines)
    assert any("aux" in line for line in build(builder, dockerfile, api="/v1.30").lines)


REFUSED = [
    ({"t": "BAD"}, 400, "must be lowercase"),
    ({"t": "a@sha256:" + "a" * 64}, 400, "build tag cannot contain a digest"),
    ({"version": "3"}, 400, "invalid version 3"),
    ({"squash": "1"}, 400, "squash is only supported with experimental mode"),
    ({"outputs": '[{"Type":"tar"}]'}, 400, "only supported by BuildKit"),
    ({"isolation": "hyperv"}, 400, 'Unsupported isolation: "hyperv"'),
    ({"securityopt": "x"}, 400, "does not support setting security options on build"),
    ({"buildargs": "{"}, 400, "error reading build args: unexpected end of JSON input"),
    ({"labels": "[]"}, 400, "error reading labels: labels is of the wrong type"),
    ({"labels": '{"a": 1}'}, 400, "error reading labels: labels is of the wrong type"),
    ({"cachefrom": "{"}, 400, "error reading cache-from: unexpected end of JSON input"),
    ({"ulimits": '[{"Name": 1}]'}, 400, "error reading ulimit settings"),
    ({"memory": "x"}, 400, "invalid syntax"),
    ({"platform": "a/b/c/d"}, 400, "cannot parse platform specifier"),
]


@pytest.mark.parametrize(("query", "status", "text"), REFUSED, ids=[f"{'-'.join(row[0])}-{row[1]}" for row in REFUSED])
def test_what_cannot_be_had_is_refused_in_words(builder: Daemon, query: dict, status: int, text: str) -> None:
    made = build(builder, "FROM busybox\n", **query)
    assert made.answer.status == status and text in made.error


WRONG = [
    ("FRM busybox\n", "dockerfile parse error on line 1: unknown instruction: FRM (did you mean FROM?)"),
    ("", "the Dockerfile (Dockerfile) cannot be empty"),
    ("FROM busybox\n\nCOPY a\n", "line 3: COPY requires at least two arguments"),
    ("RUN true\n", "no build stage in current context"),
    ("FROM busybox\nONBUILD FROM x\n", "FROM isn't allowed as an ONBUILD trigger"),
]


@pytest.mark.parametrize(("dockerfile", "text"), WRONG)
def test_a_wrong_dockerfile_is_refused_before_the_first_step(builder: Daemon, dockerfile: str, text: str) -> None:
    made = build(builder, dockerfile)
    assert made.answer.status == 400 and text in made.error


FAILING = [
    ("FROM BAD\n", "invalid reference format: repository name (library/BAD) must be lowercase"),
    ("FROM busybox AS a\nFROM a AS a\n", "a stage name already used"),
    ("FROM busybox\nCOPY --from=5 /a /b\n", "invalid from flag value 5: index out of bounds"),
    ("FROM busybox\nCOPY --from=0 /a /b\n", "invalid from flag value 0: refers to current build stage"),
    ("FROM --platform=windows/amd64 scratch\nCOPY Dockerfile /\n", "operating system is not supported"),
    ("FROM busybox\nCOPY --from=BAD /a /b\n", "invalid from flag value BAD: invalid reference format"),
    ("FROM busybox\nENV ${x:?missing}=y\n", "missing"),
    ("FROM busybox\nUSER nosuch\nRUN true\n", "unable to find user nosuch"),
    ("FROM scratch\nRUN true\n", "/bin/sh"),
    ("FROM busybox\nCOPY nothere /x\n", "COPY failed"),
    (f"FROM busybox\nWORKDIR /{'x' * 300}\n", "WORKDIR failed: file name too long"),
    ("FROM busybox\nRUN --mount=target=/ true\n", 'invalid mount target "/"'),
]


@pytest.mark.parametrize(("dockerfile", "text"), FAILING, ids=[text for _, text in FAILING])
def test_a_step_that_cannot_be_done_ends_the_build(builder: Daemon, dockerfile: str, text: str) -> None:
    made = build(builder, dockerfile, forcerm=1)
    assert made.answer.status == 200 and text in made.error
    assert made.lines[-1]["errorDetail"]["message"] == made.error


def test_intermediate_images_are_hidden_and_go_with_the_last(builder: Daemon) -> None:
    before = building.images(builder)
    made = build(builder, f"FROM busybox\nLABEL a={unique()}\nLABEL b=c\nLABEL d=e\n", t="chain")
    assert len(building.images(builder) - before) == 3
    assert building.images(builder, "") - before == {made.image}
    assert inspect(builder, "chain")["Parent"] in building.images(builder)
    builder.request("DELETE", "/images/chain")
    assert building.images(builder) == before


def test_two_steps_may_make_the_same_layer(builder: Daemon) -> None:
    dockerfile = f"FROM busybox\nLABEL a={unique()}\nCOPY x /\nRUN rm /x\nCOPY x /x\nRUN cat /x\n"
    made = build(builder, {"Dockerfile": dockerfile, "x": "data\n"})
    assert made.output == ["data"]
    layers = inspect(builder, made.image)["RootFS"]["Layers"]
    assert layers[1] == layers[3] != layers[2] and len(history(builder, made.image)) == 6


def test_a_name_moves_to_what_was_built_last(builder: Daemon) -> None:
    first = build(builder, f"FROM busybox\nLABEL a={unique()}\n", t="moves").image
    second = build(builder, f"FROM busybox\nLABEL a={unique()}\n", t="moves").image
    assert inspect(builder, "moves")["Id"] == second
    assert inspect(builder, first)["RepoTags"] == []


def test_events_tell_of_the_images_and_of_the_containers_of_steps(builder: Daemon) -> None:
    since = time.time()
    made = build(builder, f"FROM busybox\nENV A={unique()}\nRUN true\n", t="told")
    answer = builder.request("GET", f"/events?since={since:.9f}&until={time.time():.9f}")
    told = [(event["Type"], event["Action"]) for event in answer.lines]
    actions = [action for kind, action in told if kind == "container"]
    assert actions == ["create", "destroy", "create", "attach", "start", "die", "destroy"]
    assert [action for kind, action in told if kind == "image"] == ["create", "create", "tag"]
    assert answer.lines[-1]["Actor"]["ID"] == made.image
    assert answer.lines[-1]["Actor"]["Attributes"]["name"] == "told:latest"


def test_a_base_that_is_not_here_is_pulled_with_the_clients_credentials(builder: Daemon, registry) -> None:
    """`pull` gets a newer one; what the registry says of a name that it does not have is the build's error."""
    name = f"{registry.address}/base/{unique()}:1"
    registry.push(name.partition("/")[2], [building.context({"first": "1"})])
    dockerfile = {"Dockerfile": f"FROM {name}\nCOPY x /\n", "x": "1"}
    auth = base64.urlsafe_b64encode(
        json.dumps({registry.address: {"username": "u", "password": "p"}}).encode()
    ).decode()
    first = build(builder, dockerfile, headers={"X-Registry-Config": auth})
    assert len(inspect(builder, first.image)["RootFS"]["Layers"]) == 2 and "Status: Downloaded newer image" in str(
        first.lines
    )
    registry.push(name.partition("/")[2], [building.context({"second": "2"}), building.context({"third": "3"})])
    assert len(inspect(builder, build(builder, dockerfile).image)["RootFS"]["Layers"]) == 2
    assert len(inspect(builder, build(builder, dockerfile, pull=1).image)["RootFS"]["Layers"]) == 3
    missing = build(builder, f"FROM {registry.address}/base/none\n")
    assert "not found" in missing.error and missing.text == f"Step 1/1 : FROM {registry.address}/base/none\n"
    wrong = build(builder, "FROM busybox\n", headers={"X-Registry-Config": "!"})
    assert wrong.answer.status == 400 and "X-Registry-Config" in wrong.error
