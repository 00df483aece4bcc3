"""The graph of a build, seen through buildx: what runs side by side, what is made once, and what is made at all."""

import json
import re
import signal
import subprocess
import time
import uuid
from pathlib import Path

import pytest

from tests.clients.building import LONG, Building, building, told
from tests.clients.cli import said
from tests.clients.conftest import Client
from tests.harness.daemon import Daemon

# A step that goes on until the other one of its pair has begun, or for ten seconds.
MEET = "touch /m/{own}; i=0; until test -e /m/{other}; do i=$((i+1)); test $i -lt 500 || exit 9; sleep 0.02; done"


@pytest.fixture
def cache() -> str:
    """The name of a cache directory that no other test has."""
    return f"graph-{uuid.uuid4().hex}"


def meeting(cache: str, own: str, other: str) -> str:
    """A RUN that goes on until the other one has begun."""
    return f"RUN --mount=type=cache,id={cache},target=/m {MEET.format(own=own, other=other)}"


def test_stages_that_need_each_other_not_are_built_side_by_side(buildx: Building, cache: str) -> None:
    buildx.write(
        *("FROM busybox AS a", meeting(cache, "a", "b"), "FROM busybox AS b", meeting(cache, "b", "a")),
        *("FROM busybox", "COPY --from=a /bin/true /a", "COPY --from=b /bin/true /b", "RUN ls /a /b"),
    )
    output = told(buildx("build", "."))
    assert "[a 2/2] RUN" in output and "[b 2/2] RUN" in output and "[stage-3 4/4] RUN ls /a /b" in output


def test_two_builds_at_once_make_a_step_once_and_both_hear_its_command(buildx: Building, cache: str) -> None:
    step = f"RUN --mount=type=cache,id={cache},target=/m echo x >> /m/count; echo heard; sleep 2; wc -l < /m/count"
    buildx.write(step)
    builds = [buildx.begun("build", "--progress=plain", ".") for _ in range(2)]
    outputs = [build.communicate(timeout=LONG)[0] for build in builds]
    assert [build.returncode for build in builds] == [0, 0], outputs
    for output in outputs:
        assert re.search(r"^#\d+ \d+\.\d+ heard$", output, re.MULTILINE), output
        assert re.search(r"^#\d+ \d+\.\d+ 1$", output, re.MULTILINE), output


def test_who_waits_for_a_step_takes_over_when_its_maker_is_interrupted(buildx: Building, cache: str) -> None:
    step = f"RUN --mount=type=cache,id={cache},target=/m echo x >> /m/count; echo heard; sleep 2; wc -l < /m/count"
    buildx.write(step)
    first = buildx.begun("build", "--progress=plain", ".")
    _wait_for(first, "heard")
    second = buildx.begun("build", "--progress=plain", ".")
    _wait_for(second, "heard")
    first.send_signal(signal.SIGINT)
    output = second.communicate(timeout=LONG)[0]
    assert second.returncode == 0, output
    assert re.search(r"^#\d+ \d+\.\d+ 2$", output, re.MULTILINE), output
    assert first.wait(LONG) != 0
    first.communicate()


@pytest.mark.parametrize(
    ("option", "before", "after"),
    [
        ("--ulimit", "nofile=100:100", "nofile=200:200"),
        ("--shm-size", "1m", "2m"),
    ],
)
def test_a_limit_that_a_command_sees_makes_its_step_another_one(
    buildx: Building, option: str, before: str, after: str
) -> None:
    buildx.write(f"RUN echo {uuid.uuid4().hex}; ulimit -n; df /dev/shm")
    for given, fresh in ((before, True), (after, True), (before, False)):
        output = told(buildx("build", option, given, "."))
        assert ("CACHED" not in output.partition("RUN")[2]) is fresh, (given, output)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("type=secret,id=s,mode=0400", "type=secret,id=s,mode=0444"),
        ("type=secret,id=s", "type=secret,id=t,target=/run/secrets/s"),
        ("type=tmpfs,target=/t,size=1m", "type=tmpfs,target=/t,size=2m"),
        ("type=ssh", "type=ssh,mode=0666"),
        ("type=cache,target=/c", "type=cache,target=/c,uid=5"),
    ],
)
def test_each_option_of_a_mount_makes_its_step_another_one(buildx: Building, before: str, after: str) -> None:
    mark = uuid.uuid4().hex
    for mount, fresh in ((before, True), (after, True), (before, False)):
        (buildx.place / "Dockerfile").write_text(f"FROM busybox\nENV of={mark}\nRUN --mount={mount} true\n")
        output = told(buildx("build", "."))
        assert ("CACHED" not in output.partition("RUN")[2]) is fresh, (mount, output)


def test_a_cache_that_begins_with_a_stage_is_another_one_for_another_stage(buildx: Building, cache: str) -> None:
    buildx.write(
        *("FROM busybox AS a", "ARG W", "RUN mkdir /z && echo $W > /z/z", "FROM busybox"),
        f"RUN --mount=type=cache,from=a,source=/z,target=/c,id={cache} echo has $(cat /c/z)",
    )
    for word in ("one", "two"):
        assert f" has {word}" in told(buildx("build", "--build-arg", f"W={word}", "."))


def _wait_for(build: subprocess.Popen, word: str) -> None:
    """Read a build's output up to what a command writes."""
    for line in build.stdout:
        if re.match(rf"#\d+ \d+\.\d+ {word}$", line):
            return
    raise AssertionError(f"the build ended without {word}")


def test_a_failure_ends_what_runs_beside_it(buildx: Building, cache: str) -> None:
    buildx.write(
        *("FROM busybox AS a", meeting(cache, "a", "b") + "; exit 3"),
        *("FROM busybox AS b", meeting(cache, "b", "a") + "; sleep 300"),
        *("FROM busybox", "COPY --from=a /bin/true /a", "COPY --from=b /bin/true /b"),
    )
    begun = time.monotonic()
    output = told(buildx("build", "."), 1)
    assert "did not complete successfully: exit code: 3" in output
    assert re.search(r"^ERROR: .*exit code: 3$", output, re.MULTILINE), output
    assert time.monotonic() - begun < 60


def test_what_nothing_needs_is_neither_sent_nor_built(buildx: Building) -> None:
    buildx.write("FROM busybox AS never", "COPY . /c", "RUN exit 1", "FROM busybox", "RUN echo ran")
    (buildx.place / "large").write_bytes(bytes(100_000))
    output = told(buildx("build", "."))
    assert "load build context" not in output and "exit 1" not in output.replace("RUN exit 1", "")


def test_a_build_that_finds_all_in_the_cache_makes_the_same_image(buildx: Building, docker: Client, tag: str) -> None:
    buildx.write("WORKDIR /d", "COPY a .", "RUN date > b", "ENV x=y", "USER 5", "WORKDIR e")
    (buildx.place / "a").write_text("a")
    options = "--provenance=false", "-t", tag, "."  # which says when the build was
    told(buildx("build", *options))
    first = said(docker("inspect", "-f", "{{.Id}}", tag))
    time.sleep(1.1)
    told(buildx("build", *options))
    assert said(docker("inspect", "-f", "{{.Id}}", tag)) == first
    history = json.loads(said(docker("inspect", "-f", "{{json .RootFS.Layers}}", tag)))
    assert len(history) == 5  # busybox, two directories, a copy, a command
    shown = said(docker("history", "--no-trunc", "--format", "{{.CreatedBy}}|{{.Comment}}|{{.Size}}", tag)).splitlines()
    texts = [line.rsplit("|", 1)[0] for line in shown]
    assert texts[:6] == [
        "WORKDIR /d/e|buildkit.dockerfile.v0",
        "USER 5|buildkit.dockerfile.v0",
        "ENV x=y|buildkit.dockerfile.v0",
        "RUN /bin/sh -c date > b # buildkit|buildkit.dockerfile.v0",
        "COPY a . # buildkit|buildkit.dockerfile.v0",
        "WORKDIR /d|buildkit.dockerfile.v0",
    ]
    assert said(docker("run", "--rm", tag, "stat", "-c", "%u", ".")).strip() == "5"


def test_no_cache_makes_all_anew(buildx: Building) -> None:
    buildx.write("RUN echo ran")
    told(buildx("build", "."))
    again = told(buildx("build", "--no-cache", "."))
    assert re.search(r"^#\d+ \d+\.\d+ ran$", again, re.MULTILINE), again
    assert told(buildx("build", ".")).count("CACHED") == 2


def test_each_door_makes_a_command_s_files_in_its_own_form(buildx: Building, docker: Client, tag: str) -> None:
    """A step of BuildKit leaves the directories that it was mounted on, and one of the classic builder does not."""
    buildx.write("RUN echo ran")
    classic = {**buildx.environment, "DOCKER_BUILDKIT": "0"}
    words = ["docker", "build", "-t", tag, "."]
    done = subprocess.run(words, cwd=buildx.place, env=classic, capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 0 and "\nran\n" in done.stdout, done
    assert re.search(r"^#\d+ \d+\.\d+ ran$", told(buildx("build", ".")), re.MULTILINE)
    buildx.write("RUN echo other")
    told(buildx("build", "."))
    done = subprocess.run(words, cwd=buildx.place, env=classic, capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 0 and "\nother\n" in done.stdout, done


def test_a_secret_can_be_a_variable_and_is_kept_nowhere(own_daemon: Daemon, tmp_path: Path) -> None:
    """Neither in the record of the step's container, nor in the image, its history, or any file of the data root."""
    buildx = building(own_daemon, tmp_path)
    word = f"word-{uuid.uuid4().hex}"
    (tmp_path / "secret").write_text(word)
    secret = "--mount=type=secret,id=s"
    buildx.write(
        f"RUN {secret},env=WORD test $(echo -n $WORD | wc -c) = {len(word)} && test ! -e /run/secrets",
        f"RUN {secret},env=WORD,target=/s test $WORD = $(cat /s)",
        "RUN test -z $WORD",
        "RUN --mount=type=secret,id=absent,env=ABSENT test -z $ABSENT && ! env | grep ABSENT",
    )
    told(buildx("build", "-t", "one", "--secret", f"id=s,src={tmp_path}/secret", "."))
    found = subprocess.run(["grep", "-rlaF", word, str(own_daemon.data_root)], capture_output=True, text=True)
    assert found.stdout == "", found.stdout


def test_a_build_that_the_daemons_death_cuts_off_leaves_nothing_broken(own_daemon: Daemon, tmp_path: Path) -> None:
    buildx = building(own_daemon, tmp_path)
    buildx.write("RUN echo before > /a", "RUN echo heard; sleep 300", "RUN echo after")
    build = buildx.begun("build", "--progress=plain", ".")
    _wait_for(build, "heard")
    own_daemon.kill9()
    build.communicate(timeout=LONG)
    own_daemon.start()
    deadline = time.monotonic() + LONG
    while own_daemon.request("GET", "/containers/json?all=1").json() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert own_daemon.request("GET", "/containers/json?all=1").json() == []
    text = (buildx.place / "Dockerfile").read_text().replace("sleep 300", "cat /a")
    (buildx.place / "Dockerfile").write_text(text)
    output = told(buildx("build", "."))
    assert output.count("CACHED") == 2  # the base, and the step that had ended
    assert re.search(r"^#\d+ \d+\.\d+ before$", output, re.MULTILINE), output


def test_a_command_for_another_architecture_is_refused_in_words(buildx: Building) -> None:
    (buildx.place / "Dockerfile").write_text('FROM --platform=linux/s390x scratch\nCOPY Dockerfile /\nRUN ["/x"]\n')
    output = told(buildx("build", "."), 1)
    assert "RUN for linux/s390x is not possible on this host" in output and "binfmt_misc as qemu-s390x" in output
    assert re.search(r"^   3 \| >>> RUN", output, re.MULTILINE), output


def test_several_platforms_are_built_at_once_into_one_image(buildx: Building, docker: Client, tag: str) -> None:
    """What does not depend on the platform is made once; the steps of each are named by it."""
    (buildx.place / "Dockerfile").write_text(
        f"FROM busybox AS tool\nENV of={uuid.uuid4().hex}\nRUN echo made once; date > /shared\n"
        "FROM scratch\nARG TARGETARCH\nENV ARCH=$TARGETARCH\nCOPY --from=tool /shared /shared\nCOPY $TARGETARCH /arch\n"
    )
    for name in ("amd64", "arm64"):
        (buildx.place / name).write_text(name)
    platforms = "linux/amd64,linux/arm64"
    words = "--platform", platforms, "--provenance=false", "-t", tag
    lines = (buildx.place / "Dockerfile").read_text().replace("FROM busybox", "FROM --platform=$BUILDPLATFORM busybox")
    (buildx.place / "Dockerfile").write_text(lines)
    output = told(buildx("build", *words, "."))
    assert len(re.findall(r"^#\d+ \d+\.\d+ made once$", output, re.MULTILINE)) == 1, output
    for platform in platforms.split(","):
        assert f"[{platform} stage-1 2/2] COPY " in output
    for platform in platforms.split(","):
        shown = json.loads(said(docker("image", "inspect", "--platform", platform, tag)))[0]
        assert shown["Architecture"] == platform.partition("/")[2]
        assert f"ARCH={shown['Architecture']}" in shown["Config"]["Env"]
