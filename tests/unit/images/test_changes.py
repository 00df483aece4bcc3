"""The instructions that import and commit take."""

import pytest

from engine.daemon.images import changes
from engine.errors import Invalid


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('CMD ["sh", "-c"]', {"Cmd": ["sh", "-c"]}),
        ("CMD echo hi", {"Cmd": ["/bin/sh", "-c", "echo hi"]}),
        ("cmd []", {"Cmd": []}),
        ('ENTRYPOINT ["/x"]', {"Entrypoint": ["/x"]}),
        ("ENV A=1 B=\"2 3\" C='4'", {"Env": ["A=1", "B=2 3", "C=4"]}),
        ("ENV A the whole rest", {"Env": ["A=the whole rest"]}),
        ("EXPOSE 80 53/udp 7-8/tcp", {"ExposedPorts": {"80/tcp": {}, "53/udp": {}, "7/tcp": {}, "8/tcp": {}}}),
        ("LABEL a=b 'c d'=e", {"Labels": {"a": "b", "c d": "e"}}),
        ("USER app:app", {"User": "app:app"}),
        ('VOLUME ["/a", "/b"]', {"Volumes": {"/a": {}, "/b": {}}}),
        ("VOLUME /a /b", {"Volumes": {"/a": {}, "/b": {}}}),
        ("WORKDIR src", {"WorkingDir": "/src"}),
        ("STOPSIGNAL SIGINT", {"StopSignal": "SIGINT"}),
        ("ONBUILD RUN x", {"OnBuild": ["RUN x"]}),
        ("HEALTHCHECK NONE", {"Healthcheck": {"Test": ["NONE"]}}),
        (
            "HEALTHCHECK --interval=1m30s --retries=2 CMD true",
            {"Healthcheck": {"Test": ["CMD-SHELL", "true"], "Interval": 90 * 10**9, "Retries": 2}},
        ),
        ("", {}),
        ("# a comment", {}),
    ],
)
def test_each_instruction_changes_its_part_of_the_config(line, expected):
    assert changes.apply({}, [line]) == expected


def test_instructions_build_on_one_another_and_on_the_config_that_is_there():
    before = {"Env": ["A=1", "B=2"], "WorkingDir": "/srv"}
    after = changes.apply(before, ["ENV B=3\nWORKDIR x", "ENV C=4"])
    assert after == {"Env": ["A=1", "B=3", "C=4"], "WorkingDir": "/srv/x"}
    assert before == {"Env": ["A=1", "B=2"], "WorkingDir": "/srv"}


def test_variables_are_those_of_the_config_at_that_moment():
    after = changes.apply({"Env": ["Z=1"]}, ["ENV A=2", "ENV B=$A$Z C='$A'", "LABEL l=${B}"])
    assert after == {"Env": ["Z=1", "A=2", "B=21", "C=$A"], "Labels": {"l": "21"}}


def test_an_entrypoint_does_away_with_the_command_of_the_image_below_but_not_with_one_beside_it():
    assert changes.apply({"Cmd": ["/x"]}, ["ENTRYPOINT b"]) == {"Entrypoint": ["/bin/sh", "-c", "b"]}
    assert changes.apply({"Cmd": ["/x"]}, ['CMD ["c"]', 'ENTRYPOINT ["b"]']) == {"Cmd": ["c"], "Entrypoint": ["b"]}


def test_nothing_is_changed_when_a_later_instruction_is_wrong():
    config = {"Env": ["A=1"]}
    with pytest.raises(Invalid, match="COPY is not a valid change command"):
        changes.apply(config, ["ENV A=2", "COPY a b"])
    assert config == {"Env": ["A=1"]}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("RUN ls", "RUN is not a valid change command"),
        ("ENV A", "ENV must have two arguments"),
        ("ENV A=1 B", "Can't find|can't find ="),
        ("EXPOSE 99999", "invalid containerPort: 99999"),
        ("EXPOSE x", "invalid containerPort: x"),
        ("LABEL a='b", "looking for matching single-quote"),
        ("USER", "USER requires exactly one argument"),
        ("HEALTHCHECK sh", "Unknown type"),
        ("HEALTHCHECK --wrong=1 CMD x", "unknown flag: --wrong"),
    ],
)
def test_what_is_no_such_instruction_is_refused(line, message):
    with pytest.raises(Invalid, match=message):
        changes.apply({}, [line])
