"""RUN: what the command sees, what it leaves, and what becomes of it when its client goes away."""

import io
import os
import tarfile

import pytest

from tests.api import building
from tests.api.building import build, config_of, unique
from tests.harness.daemon import Daemon
from tests.harness.fixtures import running


def output(builder: Daemon, dockerfile: str | dict, **query: object) -> list[str]:
    """What the commands of a build said."""
    made = build(builder, dockerfile, forcerm=1, **query)
    assert not made.error, (made.error, made.text)
    return made.output


def test_the_forms_of_a_command(builder: Daemon) -> None:
    word = unique()
    said = output(
        builder,
        f"""FROM busybox
ENTRYPOINT ["never"]
ENV V={word}
RUN echo shell $V
RUN ["echo", "exec", "$V"]
SHELL ["/bin/echo", "said by"]
RUN a shell
SHELL ["/bin/sh", "-c"]
RUN <<EOF
echo here
echo document $V
EOF
RUN cat <<one
expanded $V
one
RUN cat <<'two'
plain $V
two
RUN <<program
#!/bin/cat
as written: $V
program
""",
    )
    assert said[:2] == [f"shell {word}", "exec $V"]
    assert said[2:5] == ["said by a shell", "here", f"document {word}"]
    assert said[5:7] == [f"expanded {word}", "plain $V"]
    assert said[7:] == ["#!/bin/cat", "as written: $V"]


def test_user_directory_environment_and_hosts_are_the_images_and_the_clients(builder: Daemon) -> None:
    said = output(
        builder,
        f"FROM busybox\nUSER www-data\nWORKDIR /tmp\nENV A={unique()}\nRUN id -u; pwd; grep -c extra /etc/hosts\n",
        extrahosts=["extra:1.2.3.4"],
    )
    assert said == ["33", "/tmp", "1"]


def test_output_comes_while_the_command_runs_and_stays_whole(builder: Daemon) -> None:
    """A character of several bytes is not cut where the pieces are; what is no text is shown as such."""
    script = r"printf '\303'; sleep 0.05; printf '\244\n'; printf '\377x\n'"
    assert output(builder, f"FROM busybox\nRUN {script}; : {unique()}\n") == ["ä", "�x"]
    with builder.connection() as connection:
        step = f"echo {unique()} begun; until [ -e /go ]; do sleep 0.02; done; echo end"
        body = building.context({"Dockerfile": f"FROM busybox\nRUN {step}\n"})
        connection.send_request("POST", building.request_target({}), body, building.TAR)
        connection.read_head()
        words = [b"begun\\n", b"end\\n"]
        for chunk in connection.chunks():
            if words and words[0] in chunk and b"Step" not in chunk and words.pop(0) == b"begun\\n":
                builder.put_file(running_of(builder)[0], "go")  # it is heard of before the command goes on
    assert not words


def test_a_layer_has_what_the_command_changed_and_nothing_of_the_engine(builder: Daemon) -> None:
    word = unique()
    dockerfile = f"FROM busybox\nRUN mkdir /d && echo {word} >/d/f && rm /etc/shadow && chmod 700 /var/www\n"
    first = build(builder, f"{dockerfile}RUN : nothing {word}\n")
    shown = building.inspect(builder, first.image)
    assert len(shown["RootFS"]["Layers"]) == 2  # a step without changes has none
    container = builder.create("sh", "-c", "cat /d/f; ls /etc/shadow; stat -c %a /var/www", Image=first.image)
    builder.begin(container)
    builder.wait(container)
    log = builder.logs(container)
    builder.remove(container)
    assert word.encode() in log and b"No such file" in log and b"700" in log
    left = made_of(builder, dockerfile)
    paths = {change["Path"] for change in builder.request("GET", f"/containers/{left}/changes").json()}
    builder.remove(left)
    assert paths == {"/d", "/d/f", "/etc", "/etc/shadow", "/var", "/var/www"}


def made_of(builder: Daemon, dockerfile: str) -> str:
    """A container that a step has left: rm=0, and another last line so that it is run."""
    before = set(building.containers(builder))
    build(builder, dockerfile.replace("&& rm", "&& : && rm"), rm=0)
    return (set(building.containers(builder)) - before).pop()


def test_volumes_of_the_image_are_not_part_of_a_layer(builder: Daemon) -> None:
    said = output(builder, f"FROM busybox\nVOLUME /v\nRUN echo {unique()} >/v/f; ls /v\nRUN ls /v\n")
    assert said == ["f"]
    assert builder.request("GET", "/volumes").json()["Volumes"] == []


def test_limits_hold_for_every_command(builder: Daemon) -> None:
    """What the cgroup says inside; of a version 1 host's hierarchies the memory's and the processor's."""
    script = "ulimit -n; df -k /dev/shm | tail -n1 | tr -s ' ' | cut -d' ' -f2"
    query = {"ulimits": '[{"Name":"nofile","Hard":77,"Soft":77}]', "shmsize": 1 << 20, "memory": 64 << 20}
    assert output(builder, f"FROM busybox\nRUN {script}; : {unique()}\n", **query) == ["77", "1024"]
    grow = f"FROM busybox\nRUN head -c 40m /dev/zero | tail; : {unique()}\n"
    grown = build(builder, grow, memory=8 << 20, memswap=8 << 20, forcerm=1)
    assert "returned a non-zero code: 137" in grown.error or "Killed" in grown.text


def test_the_network_of_a_command(builder: Daemon) -> None:
    """By the number of its network namespace: `host` is the daemon's own."""
    show = "FROM busybox\nRUN{} readlink /proc/self/ns/net; : {}\n"
    daemons = os.readlink(f"/proc/{builder.pid}/ns/net")
    assert output(builder, show.format("", unique()), networkmode="host") == [daemons]
    assert output(builder, show.format(" --network=host", unique())) == [daemons]
    assert output(builder, show.format(" --network=none", unique()), networkmode="host") != [daemons]
    assert "not allowed" in build(builder, "FROM busybox\nRUN --security=insecure true\n").error


# --mount


def test_a_cache_is_kept_between_builds_and_is_no_part_of_the_image(builder: Daemon) -> None:
    word = unique()
    step = "RUN --mount=type=cache,id={},target=/kept/here{} cat /kept/here/f; echo {} >>/kept/here/f\n"
    first = build(builder, "FROM busybox\n" + step.format(word, ",mode=0770,uid=33", "1") + "RUN ls /kept", forcerm=1)
    assert "ls: /kept: No such file or directory" in first.text
    said = output(builder, "FROM busybox\nRUN mkdir /kept\n" + step.format(word, "", "2"))
    assert said == ["1"]
    step = step.replace(";", "; stat -c %u:%a /kept/here;")
    said = build(builder, "FROM busybox\n" + step.format(word, ",ro", "3"), forcerm=1).output
    assert said[:3] == ["1", "2", "33:770"] and "Read-only" in said[3]


def test_a_bind_shows_the_context_a_stage_or_an_image_and_is_read_only(builder: Daemon) -> None:
    word = unique()
    dockerfile = f"""FROM busybox AS other
RUN mkdir /o && echo {word} >/o/f
FROM busybox
WORKDIR /work
RUN --mount=target=/c --mount=type=bind,source=d/x,target=file \\
    cat /c/d/x file; echo 2>&1 >/c/new; echo >file 2>&1; true
RUN --mount=from=other,source=/o,target=/stage --mount=from=busybox,source=/etc/passwd,target=/pw \\
    cat /stage/f; head -n1 /pw
RUN --mount=type=bind,source=d,target=/rw,rw echo more >>/rw/x; cat /rw/x
RUN --mount=type=bind,source=d,target=/rw cat /rw/x; ls -d /c /stage /pw /rw/.. 2>&1; ls -a /work
"""
    made = build(builder, {"Dockerfile": dockerfile, "d/x": "content\n"}, forcerm=1)
    assert not made.error, (made.error, made.text)
    said = [line for line in made.output if "\x1b" not in line and "Read-only" not in line]
    assert said[:2] == ["content", "content"] and "Read-only file system" in made.text
    assert said[2:7] == [word, "root:x:0:0:root:/root:/bin/sh", "content", "more", "content"]
    assert "ls: /c: No such file or directory" in made.text and made.output[-2:] == [".", ".."]
    assert "--mount" not in building.history(builder, made.image)[0]
    missing = build(builder, "FROM busybox\nRUN --mount=source=nope,target=/x true\n")
    assert "nope" in missing.error


def test_a_tmpfs_is_empty_and_goes(builder: Daemon) -> None:
    said = output(
        builder,
        "FROM busybox\nRUN --mount=type=tmpfs,target=/var/www,size=64k df -k /var/www | grep -c 64;"
        f" echo {unique()} >/var/www/f\nRUN ls /var/www\n",
    )
    assert said == ["1"]


def test_a_secret_is_absent_unless_it_is_required(builder: Daemon) -> None:
    assert output(builder, f"FROM busybox\nRUN --mount=type=secret,id=s ls /run/secrets 2>&1; : {unique()}\n") == [
        "ls: /run/secrets: No such file or directory"
    ]
    refused = build(builder, "FROM busybox\nRUN --mount=type=secret,id=s,required true\n")
    assert refused.error.startswith("secret s is required") and "buildx" in refused.error


def test_a_link_in_the_context_leads_a_bind_nowhere_out_of_it(builder: Daemon) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        entry = tarfile.TarInfo("Dockerfile")
        content = b"FROM busybox\nRUN --mount=source=up,target=/up ls /up\n"
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
        link = tarfile.TarInfo("up")
        link.type, link.linkname = tarfile.SYMTYPE, "../../../.."
        tar.addfile(link)
    answer = builder.request("POST", building.request_target({}), buffer.getvalue(), building.TAR)
    made = building.Built(answer)
    assert made.output in (["Dockerfile", "up"], []), made.text


def test_where_images_are_copied_a_build_is_the_same(world) -> None:
    """A data root that can carry no overlay."""
    daemon = world.daemon()
    daemon.copies_layers()
    with running(daemon):
        daemon.import_busybox()
        dockerfile = """FROM busybox AS one
RUN rm /etc/shadow && echo 1 >/f
RUN ls /etc/shadow 2>/dev/null || echo gone
WORKDIR /etc/new
COPY x .
FROM busybox
COPY --from=one /etc/new /f /to/
RUN --mount=from=one,target=/one ls /to /one/etc/shadow 2>/dev/null; cat /one/f
RUN --mount=type=cache,target=/c --mount=source=x,target=/x cat /x
"""
        made = build(daemon, {"Dockerfile": dockerfile, "x": "context\n"})
        assert not made.error, (made.error, made.text)
        assert made.output == ["gone", "/to:", "f", "x", "1", "context"]
        assert build(daemon, {"Dockerfile": dockerfile, "x": "context\n"}).ran == 0


# Going away


def running_of(builder: Daemon) -> list[str]:
    """Ids of the containers that run."""
    return [container["Id"] for container in builder.request("GET", "/containers/json").json()]


@pytest.mark.parametrize("script", ["sleep 100", "while :; do echo x; done"])
def test_a_client_that_goes_away_takes_the_step_with_it(builder: Daemon, script: str) -> None:
    before = building.images(builder)
    with builder.connection() as connection:
        body = building.context({"Dockerfile": f"FROM busybox\nRUN {script}; : {unique()}\n"})
        connection.send_request("POST", building.request_target({}), body, building.TAR)
        building.see(lambda: running_of(builder))
    building.see(lambda: not building.containers(builder))
    assert building.images(builder) == before
    building.see(lambda: os.listdir(builder.data_root / "tmp") == [])


def test_a_program_that_cannot_be_executed_fails_its_step_and_says_why(builder: Daemon) -> None:
    files = {
        "Dockerfile": f'FROM busybox\nCOPY x /x{unique()}\nRUN chmod +x /x*; mv /x* /x\nRUN ["/x"]\n',
        "x": "#!/a\r\n",
    }
    made = build(builder, files, forcerm=1)
    assert "exec /x: no such file or directory" in made.text
    assert made.error == "The command '/x' returned a non-zero code: 255"


def test_a_container_that_is_killed_fails_its_step(builder: Daemon) -> None:
    with builder.connection() as connection:
        body = building.context({"Dockerfile": f"FROM busybox\nRUN sleep 100; : {unique()}\n"})
        connection.send_request("POST", building.request_target({"forcerm": 1}), body, building.TAR)
        running = building.see(lambda: running_of(builder))
        builder.request("POST", f"/containers/{running[0]}/kill")
        made = building.Built(connection.read_answer())
    assert made.lines[-1]["errorDetail"]["code"] == 137


def test_health_and_limits_of_the_image_are_not_the_commands(builder: Daemon) -> None:
    made = build(builder, f"FROM busybox\nHEALTHCHECK --interval=1s CMD false\nRUN : {unique()}\n", rm=0)
    container = building.containers(builder)[0]
    shown = builder.inspect(container)
    builder.remove(container)
    assert shown["Config"]["Healthcheck"]["Test"] == ["NONE"] and shown["HostConfig"]["LogConfig"]["Type"] == "none"
    assert config_of(builder, made.image)["Healthcheck"]["Test"] == ["CMD-SHELL", "false"]
