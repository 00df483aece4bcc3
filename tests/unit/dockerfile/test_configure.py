"""Instructions that change a config alone; the expected configs are those that dockerd 20.10 made of the same text."""

import pytest

from engine.daemon.dockerfile import commands, configure, instructions, parser
from engine.errors import Invalid

CONFIGS = [
    ("CMD", {"Cmd": ["/bin/sh", "-c"]}),
    ("CMD []", {"Cmd": []}),
    ("CMD a  b", {"Cmd": ["/bin/sh", "-c", "a  b"]}),
    ("ENTRYPOINT []", {"Entrypoint": None}),
    ("CMD a\nENTRYPOINT b", {"Cmd": ["/bin/sh", "-c", "a"], "Entrypoint": ["/bin/sh", "-c", "b"]}),
    ("ENTRYPOINT b\nCMD a", {"Cmd": ["/bin/sh", "-c", "a"], "Entrypoint": ["/bin/sh", "-c", "b"]}),
    ('SHELL ["/b"]\nCMD a', {"Shell": ["/b"], "Cmd": ["/b", "a"]}),
    ("ENV a=1 b='2 3'\nENV a=$b c=$a", {"Env": ["a=2 3", "b=2 3", "c=1"]}),
    ("ENV A  some  value 'x'", {"Env": ["A=some  value x"]}),
    ("ENV $=1", {"Env": ["$=1"]}),
    ('LABEL a=b "c d"=e\nLABEL a=f', {"Labels": {"a": "f", "c d": "e"}}),
    (
        "EXPOSE 80 53/udp 7-8/tcp 1:2 127.0.0.1:5:6 81/TCP",
        {"ExposedPorts": {key: {} for key in ("6/tcp", "2/tcp", "53/udp", "7/tcp", "8/tcp", "80/tcp", "81/tcp")}},
    ),
    ('VOLUME /a\nVOLUME ["c d"]', {"Volumes": {"/a": {}, "c d": {}}}),
    ("WORKDIR /a//b/../c", {"WorkingDir": "/a//b/../c"}),
    ("WORKDIR a/../b", {"WorkingDir": "/b"}),
    ("WORKDIR /a/\nWORKDIR b\nWORKDIR ../c", {"WorkingDir": "/a/c"}),
    ("WORKDIR ../../x", {"WorkingDir": "/x"}),
    ("USER a:b", {"User": "a:b"}),
    ("STOPSIGNAL SIGINT", {"StopSignal": "SIGINT"}),
    (
        'HEALTHCHECK --interval=1m30s --timeout=1.5s --retries=3 CMD ["a"]',
        {"Healthcheck": {"Test": ["CMD", "a"], "Interval": 90 * 10**9, "Timeout": 15 * 10**8, "Retries": 3}},
    ),
    ("HEALTHCHECK NONE", {"Healthcheck": {"Test": ["NONE"]}}),
    ("ONBUILD RUN a\nONBUILD copy a b", {"OnBuild": ["RUN a", "copy a b"]}),
    ("MAINTAINER a", {}),
]

# As dockerd 20.10 said when the step was done; a current one writes the first word small.
REFUSED = [
    ("EXPOSE x", "invalid containerPort: x"),
    ("EXPOSE 80/foo", "invalid proto: foo"),
    ("EXPOSE 99999", "invalid containerPort: 99999"),
    ("EXPOSE 9-8", "invalid containerPort: 9-8"),
    ("EXPOSE -1", "invalid containerPort: -1"),
    ("EXPOSE 80-", "invalid containerPort: 80-"),
    ("STOPSIGNAL foo", "invalid signal: foo"),
    ("STOPSIGNAL 0", "invalid signal: 0"),
    ("WORKDIR $un", "cannot normalize nothing"),
    ("VOLUME $un", "VOLUME specified can not be an empty string"),
    ("ENV $un=1", "invalid environment variable: =1"),
]


def configured(text: str) -> dict:
    config: dict = {}
    cmd_set = False
    for one in parser.statements(text.encode()).instructions:
        seen = dict(entry.partition("=")[::2] for entry in config.get("Env") or [])
        command = instructions.read(one, seen)
        configure.apply(config, command, cmd_set=cmd_set)
        cmd_set = cmd_set or isinstance(command, commands.Cmd)
    return config


@pytest.mark.parametrize(("text", "expected"), CONFIGS)
def test_a_config_becomes_what_dockerd_makes_of_it(text, expected):
    assert configured(text) == expected


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_only_the_step_can_know_is_refused_then(text, message):
    with pytest.raises(Invalid) as refused:
        configured(text)
    assert str(refused.value) == message


@pytest.mark.parametrize("name", ["RTMIN+3", "SIGRTMAX-1", "SIGRTMIN", "kill", "64", "99", "sigterm"])
def test_signals_have_the_names_that_dockerd_knows(name):
    assert configured(f"STOPSIGNAL {name}") == {"StopSignal": name}


def test_a_new_entrypoint_does_away_with_the_base_s_command():
    config = {"Cmd": ["/base"], "Entrypoint": ["/e"]}
    configure.apply(config, commands.Entrypoint(argv=("b",)))
    assert config == {"Entrypoint": ["b"]}


def test_lists_of_the_config_given_are_replaced_never_changed():
    env, on_build = ["A=1"], ["RUN a"]
    config = {"Env": env, "OnBuild": on_build}
    configure.apply(config, commands.Env((("A", "2"),)))
    configure.apply(config, commands.Onbuild("RUN b"))
    assert (env, on_build) == (["A=1"], ["RUN a"])
