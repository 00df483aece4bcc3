"""Attacks of a Dockerfile's steps on the host that builds it: RUN --mount, what is cleaned up behind it, what it sees.

Each test is named after the published flaw of BuildKit or Buildah that it repeats. `bait` sees whether anything of the
host was touched; what the steps said must have nothing of it.
"""

import itertools
import json
import os
import threading
from pathlib import Path
from uuid import uuid4

import pytest

from tests.harness import leaks
from tests.harness.contexts import Built, Member, archive, build, link
from tests.harness.daemon import Daemon
from tests.sandbox.bait import SECRET, state

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("busybox")]

UP = "../" * 12


def attempt(daemon: Daemon, words: str, *members: Member) -> Built:
    """Build it; nothing of the host was said."""
    made = build(daemon, f"FROM busybox\nENV UNIQUE={uuid4().hex}\n{words}", *members)
    assert SECRET not in made.said + made.error, made
    return made


def test_cve_2024_23652_the_place_of_a_mount_is_not_cleaned_up_on_the_host(daemon: Daemon, tmp_path: Path) -> None:
    """The command puts a link out where the engine made a place for the mount; there, on the host, all is empty."""
    prey = tmp_path / "prey"
    (prey / "deep").mkdir(parents=True)
    (prey / "file").touch()
    (prey / "deep/er").mkdir()
    before = state(prey)
    for target in ("/new/deep", "/new/file", "/new/deep/er"):
        made = attempt(daemon, f"RUN --mount=type=tmpfs,target={target} mv /new /moved && ln -s {prey} /new")
        assert made.id and state(prey) == before, made
        # The link is in the layer: the next step's place is behind it, and goes with the step.
        for link_to in (prey, f"{UP}{prey}"):
            attempt(daemon, f"RUN ln -s {link_to} /new\nRUN --mount=type=tmpfs,target={target} true")
            assert state(prey) == before


def test_cve_2024_9675_the_name_of_a_cache_is_no_path(daemon: Daemon, bait: Path) -> None:
    """Neither `id` nor the target, which is the name where there is none."""
    for name in (f"{UP}{bait}", str(bait), "../../..", "../volumes", ".", ""):
        for where in ("/c", f"/c/{UP}c"):
            made = attempt(
                daemon, f"RUN --mount=type=cache,id={name},target={where} ls -a /c; cat /c/secret; touch /c/planted"
            )
            assert made.id or made.error, made
    assert os.listdir(bait) == ["secret"]


def test_cve_2024_23651_a_cache_that_changes_while_it_is_mounted_shows_only_itself(
    daemon: Daemon, bait: Path, attacker: bytes
) -> None:
    """One build swaps a directory of the cache for a link out, another mounts that part of it, several times over."""
    name = uuid4().hex
    swap = (
        f"COPY --chmod=755 attacker /attacker\nRUN --mount=type=cache,id={name},target=/c mkdir /c/part;"
        f" ln -s {bait} /c/link; timeout -s KILL 2 /attacker swap /c/part /c/link; true"
    )
    swapping = threading.Thread(target=attempt, args=(daemon, swap, Member("attacker", attacker)))
    swapping.start()
    try:
        for number in itertools.takewhile(lambda _: swapping.is_alive(), itertools.count()):
            made = attempt(
                daemon,
                f"RUN --mount=type=cache,id={name},target=/c,source=part ls -R /c; cat /c/secret /c/*/secret\n"
                f"RUN --mount=type=cache,id={name},target=/c --mount=type=tmpfs,target=/c/part/{number} true",
            )
            assert made.id or made.error, made
    finally:
        swapping.join()


def test_cve_2024_1753_and_11218_a_mount_from_an_image_shows_that_image(daemon: Daemon, bait: Path) -> None:
    """Its source is a link in another stage: absolute, climbing, on the way, for reading and for writing."""
    stage = f"RUN ln -s {bait} /abs; ln -s {UP}{bait} /up; ln -s / /root-of; ln -s /proc/1/root /magic\n"
    for source in ("/abs", "/up", f"/root-of{bait}", f"/magic{bait}", f"{UP}{bait}", "/abs/secret"):
        for more in ("", ",rw"):
            made = attempt(
                daemon,
                f"{stage}FROM busybox\nRUN --mount=type=bind,from=0,source={source},target=/m{more}"
                " ls -aR /m; cat /m /m/secret; touch /m/planted",
            )
            assert not made.id or "No such file" in made.said, made
    assert os.listdir(bait) == ["secret"]


@pytest.mark.parametrize(
    "option",
    [
        "bind-propagation=shared",
        "bind-propagation=rshared,upperdir=/x",
        "z",
        "U=true",
        "relabel=shared",
        "options=rbind",
    ],
)
def test_cve_2024_9407_a_mount_has_no_option_but_those_that_are_known(daemon: Daemon, option: str) -> None:
    """What Buildah handed on to the mount unread."""
    made = attempt(daemon, f"RUN --mount=type=bind,target=/m,{option} ls /m", Member("x", "x"))
    assert not made.id and ("unexpected key" in made.error or "invalid field" in made.error), made


def test_cve_2025_4953_what_is_written_into_a_bind_goes_with_the_step(daemon: Daemon) -> None:
    """Neither the context nor the next step has it."""
    words = (
        "RUN --mount=type=bind,target=/c,rw echo leak >/c/leak; echo leak >>/c/file\n"
        "RUN --mount=type=bind,target=/c,rw ls /c; cat /c/file\nCOPY . /all\nRUN ls /all; cat /all/file"
    )
    made = attempt(daemon, words, Member("file", "mine\n"))
    assert made.id and made.said.count("mine") == 2 and "\nleak" not in made.said, made


def test_cve_2021_3602_a_step_has_nothing_of_the_daemons_environment(daemon: Daemon) -> None:
    """Of no process that it sees."""
    secret = os.environ[leaks.TOKEN_VARIABLE]
    made = attempt(daemon, "RUN env; cat /proc/[0-9]*/environ | tr '\\0' '\\n'; echo over")
    assert made.id and "over" in made.said and secret not in made.said


def test_cve_2022_4122_and_4123_a_context_shows_no_files_and_no_paths_of_the_host(daemon: Daemon, bait: Path) -> None:
    """.dockerignore and Dockerfile as links out; and what is not there is told without the place where it was looked
    for."""
    text = Member("Dockerfile", "FROM busybox\nCOPY . /all\nRUN ls /all")
    for target in (f"{bait}/secret", f"{UP}{bait}/secret", str(bait)):
        for name in (".dockerignore", "Dockerfile.dockerignore", "Dockerfile"):
            members = [link(name, target)] + ([text] if name != "Dockerfile" else [])
            made = build(daemon, "", body=archive(*members))
            assert SECRET not in made.said + made.error, made
            assert str(daemon.data_root) not in made.said + made.error, made
    for words in ("COPY nothing /", "ADD nothing /", "COPY nothing/* /", "RUN --mount=source=nothing,target=/x true"):
        made = attempt(daemon, words, Member("d", None))
        assert not made.id and str(daemon.data_root) not in json.dumps([made.said, made.error]), made
