"""Dockerfiles of which each line is short, and takes what the lines before have made: all of it together is bounded."""

import pytest

from engine.daemon.builder import stages
from engine.daemon.builder.options import Options
from engine.daemon.buildkit.lint import review, walk
from engine.daemon.dockerfile import words
from engine.errors import Invalid
from tests.unit.builder.test_converting import converted

LONG = "x" * 10_000


def below(number: int) -> str:
    """The stage on which another one stands."""
    return f"s{number - 1}" if number else "base"


GROWING = {
    "variables": [f"ENV a={LONG}", *(f"ENV b{number}=x$a" for number in range(100))],
    "arguments": [f"ARG a={LONG}", *(f"ARG b{number}=x$a" for number in range(100))],
    "labels": [f"ENV a={LONG}", *(f"LABEL b{number}=x$a" for number in range(100))],
    "copies": [f"ENV a={LONG}", *(f"COPY x$a /{number}" for number in range(100))],
    "commands that show their arguments": [f"ARG a={LONG}", *(f"RUN {number}" for number in range(100))],
    "here-documents": [f"ENV a={LONG}", *(f"COPY <<E{number} /\nx$a\nE{number}" for number in range(100))],
    "ports": [line for number in range(20) for line in (f"FROM {below(number)} AS s{number}", "EXPOSE 1-1000")],
    "labels of stages": [
        f"LABEL {' '.join(f'{number}=' for number in range(1000))}",
        *(line for number in range(20) for line in (f"FROM {below(number)} AS s{number}", "LABEL x=")),
    ],
    "steps that see many variables": [
        f"ENV {' '.join(f'v{number}=' for number in range(1000))}",
        *(f"COPY {number} /" for number in range(200)),
    ],
}


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """As much for a short file as there is for a long one."""
    monkeypatch.setattr(words, "MOST_IN_ALL", 130_000)


@pytest.mark.parametrize("name", GROWING)
@pytest.mark.usefixtures("little")
def test_what_a_file_makes_of_itself_is_bounded(name: str) -> None:
    with pytest.raises(Invalid, match="too long in all"):
        converted("\n".join(("FROM b AS base", *GROWING[name])))


@pytest.mark.usefixtures("little")
def test_names_of_images_are_bounded_too() -> None:
    """One that is too long is none; a stage that is needed says why."""
    lines = (f"ARG a={LONG}", *(f"FROM x$a AS s{number}" for number in range(100)))
    _, plan, _ = stages.prepare("\n".join(lines).encode(), "Dockerfile", Options())
    assert sum(len(stage.base or "") for stage in plan.every) <= 130_000 + 100


def test_a_check_of_such_a_file_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "MOST_IN_ALL", 130_000)
    lines = (f"ARG a={LONG}", *(f"FROM x$a AS s{number}" for number in range(100)))
    found = walk.review("\n".join(lines).encode(), review.Around(lambda _name, _platform: {}))
    assert sum(len(stage.base or "") for stage in found.stages) <= 130_000 + 100


def test_a_working_directory_is_no_longer_than_a_path() -> None:
    with pytest.raises(Invalid, match="more than 4095 characters"):
        converted("\n".join(("FROM b", *(f"WORKDIR {'x' * 100}" for _ in range(50)))))


def test_what_stages_share_is_changed_in_none_of_them() -> None:
    """Each stands on the config of the one before."""
    lines = ("FROM b AS s", "ENV a=1", "LABEL l=1", "EXPOSE 1", "VOLUME /v", "ONBUILD RUN x", "FROM s AS t", "ENV a=2")
    more = ("ENV c=3", "LABEL l=2", "EXPOSE 2", "VOLUME /w", "ONBUILD RUN y", "FROM s")
    given = {"Env": ["PATH=/"], "Labels": {"k": "0"}}
    conversion, built = converted("\n".join((*lines, *more)), given)
    for each in (conversion.built[0], built):
        config = each.state.config
        assert config["Env"] == ["PATH=/", "a=1"] and config["Labels"] == {"k": "0", "l": "1"}
        assert list(config["ExposedPorts"]) == ["1/tcp"] and list(config["Volumes"]) == ["/v"]
    assert given == {"Env": ["PATH=/"], "Labels": {"k": "0"}}
