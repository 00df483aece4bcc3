"""The lines that steps leave in an image's history, as dockerd 20.10 wrote them for the same Dockerfiles."""

import pytest

from engine.daemon.builder import historytext
from engine.daemon.dockerfile import commands

SECOND = 1_000_000_000

LINES = [
    (commands.Env((("A", "1"), ("B", "x y"))), {}, "ENV A=1 B=x y"),
    (commands.Label((("a b", "c d"), ("e", "f"))), {}, "LABEL a b=c d e=f"),
    (commands.Arg((("x", None), ("y", "5"))), {}, "ARG x y=5"),
    (commands.Maintainer("me <x>"), {}, "MAINTAINER me <x>"),
    (commands.Onbuild("RUN true"), {}, "ONBUILD RUN true"),
    (commands.Cmd(), {"Cmd": ["/bin/sh", "-c", 'foo "b c"']}, 'CMD ["/bin/sh" "-c" "foo \\"b c\\""]'),
    (commands.Cmd(), {"Cmd": []}, "CMD []"),
    (commands.Entrypoint(), {"Entrypoint": ["a", 'b"c']}, 'ENTRYPOINT ["a" "b\\"c"]'),
    (commands.Expose(("90/udp", "80")), {}, "EXPOSE 80 90/udp"),
    (commands.User("33:33"), {}, "USER 33:33"),
    (commands.Volume(("/v", "/w")), {}, "VOLUME [/v /w]"),
    (commands.Stopsignal("SIGINT"), {}, "STOPSIGNAL SIGINT"),
    (commands.Shell(("/bin/sh", "-ec")), {}, "SHELL [/bin/sh -ec]"),
    (commands.Workdir("b"), {"WorkingDir": "/a/b"}, "WORKDIR /a/b"),
    (
        commands.Healthcheck(("CMD-SHELL", "true")),
        {"Healthcheck": {"Test": ["CMD-SHELL", "true"], "Interval": 5 * SECOND}},
        "HEALTHCHECK &{Test:[CMD-SHELL true] Interval:5s Timeout:0s StartPeriod:0s StartInterval:0s Retries:0}",
    ),
    (
        commands.Healthcheck(("NONE",)),
        {"Healthcheck": {"Test": ["NONE"], "Interval": 90 * SECOND, "Timeout": 1_500_000_000, "Retries": 3}},
        "HEALTHCHECK &{Test:[NONE] Interval:1m30s Timeout:1.5s StartPeriod:0s StartInterval:0s Retries:3}",
    ),
]


@pytest.mark.parametrize(("command", "config", "line"), LINES, ids=[line for _, _, line in LINES])
def test_the_line_of_an_instruction(command: commands.Command, config: dict, line: str) -> None:
    assert historytext.of(command, config) == line


def test_the_shell_stands_before_what_runs_nothing() -> None:
    assert historytext.nothing_run({}, "#(nop) ", "ENV A=1") == ["/bin/sh", "-c", "#(nop) ", "ENV A=1"]
    config = {"Shell": ["/bin/bash", "-c"]}
    assert historytext.nothing_run(config, "#(nop) WORKDIR /x") == ["/bin/bash", "-c", "#(nop) WORKDIR /x"]
