"""Instructions read as values: what each says, and which of its parts have variables put in."""

import pytest

from engine.daemon.dockerfile import commands, instructions, parser
from engine.daemon.dockerfile.commands import Mount
from engine.daemon.dockerfile.statements import Heredoc
from engine.errors import Invalid

VARIABLES = {"A": "x", "B": "p q"}


def read(text: str, expanded: bool = False) -> commands.Command:
    (one,) = parser.statements(text.encode()).instructions
    if not expanded:
        return instructions.read(one)
    return instructions.read(one, VARIABLES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FROM busybox", commands.From("busybox")),
        ("from --platform=linux/arm64 a:1 aS Bb-c", commands.From("a:1", "linux/arm64", "bb-c")),
        ("RUN a  b", commands.Run(shell="a  b")),
        ('RUN ["a", "b"]', commands.Run(argv=("a", "b"))),
        ("RUN", commands.Run(shell="")),
        ("RUN --network=none --security=insecure a", commands.Run(shell="a", network="none", security="insecure")),
        ("CMD a", commands.Cmd(shell="a")),
        ("CMD []", commands.Cmd(argv=())),
        ('ENTRYPOINT ["a"]', commands.Entrypoint(argv=("a",))),
        ("COPY a b c", commands.Copy(("a", "b"), "c")),
        ('COPY ["a b", "c"]', commands.Copy(("a b",), "c")),
        (
            "COPY --from=0 --chown=1:2 --chmod=0755 --link --exclude=x --exclude=y --parents=true a b",
            commands.Copy(("a",), "b", "1:2", "0755", True, ("x", "y"), from_="0", parents=True),
        ),
        (
            "ADD --checksum=sha256:0 --keep-git-dir=false --unpack http://x/y /",
            commands.Add(("http://x/y",), "/", checksum="sha256:0", keep_git_dir=False, unpack=True),
        ),
        ("ADD a b", commands.Add(("a",), "b")),
        ("ENV a=b c='d'", commands.Env((("a", "b"), ("c", "'d'")))),
        ("ENV a b c", commands.Env((("a", "b c"),))),
        ("LABEL a=b", commands.Label((("a", "b"),))),
        ("ARG a", commands.Arg((("a", None),))),
        ("ARG a= b=c d", commands.Arg((("a", ""), ("b", "c"), ("d", None)))),
        ("WORKDIR /a b", commands.Workdir("/a b")),
        ("USER a:b", commands.User("a:b")),
        ("EXPOSE 90 80-82/udp", commands.Expose(("80-82/udp", "90"))),
        ("VOLUME /a /b", commands.Volume(("/a", "/b"))),
        ('SHELL ["a", "-c"]', commands.Shell(("a", "-c"))),
        ("STOPSIGNAL SIGINT", commands.Stopsignal("SIGINT")),
        ("HEALTHCHECK none", commands.Healthcheck(("NONE",))),
        ("HEALTHCHECK CMD a b", commands.Healthcheck(("CMD-SHELL", "a b"))),
        (
            'HEALTHCHECK --interval=1h2m --timeout=1.5s --start-period=.5s --start-interval=2ms --retries=4 CMD ["a"]',
            commands.Healthcheck(("CMD", "a"), 3720 * 10**9, 15 * 10**8, 5 * 10**8, 2 * 10**6, 4),
        ),
        ("onbuild   copy  a b", commands.Onbuild("copy  a b")),
        ("ONBUILD RUN <<E\nx\nE", commands.Onbuild("RUN <<E\nx\nE")),
        ("MAINTAINER a <b@c>", commands.Maintainer("a <b@c>")),
    ],
)
def test_an_instruction_says(text, expected):
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FROM $A:${B}", commands.From("x:p q")),
        ("RUN echo $A", commands.Run(shell="echo $A")),
        ("CMD echo $A", commands.Cmd(shell="echo $A")),
        ('ENTRYPOINT ["$A"]', commands.Entrypoint(argv=("$A",))),
        ("COPY --chown=$A --chmod=$A --exclude=$A $A b$A", commands.Copy(("x",), "bx", "x", "x", exclude=("x",))),
        ("ADD --checksum=$A $B c", commands.Add(("p q",), "c", checksum="x")),
        ("ENV $A=$B c='$A' d=\"$A\" e", None),
        ("ENV $A=$B c='$A' d=\"$A\"", commands.Env((("x", "p q"), ("c", "$A"), ("d", "x")))),
        ("LABEL $A='$A'", commands.Label((("x", "$A"),))),
        ("ARG a=$A", commands.Arg((("a", "x"),))),
        ("WORKDIR /$A", commands.Workdir("/x")),
        ("USER $A", commands.User("x")),
        ("EXPOSE $B 80", commands.Expose(("p", "q", "80"))),
        ("VOLUME $A", commands.Volume(("x",))),
        ("STOPSIGNAL $A", commands.Stopsignal("x")),
        ("HEALTHCHECK CMD $A", commands.Healthcheck(("CMD-SHELL", "$A"))),
        ("ONBUILD RUN $A", commands.Onbuild("RUN $A")),
        ('SHELL ["$A"]', commands.Shell(("$A",))),
        ("MAINTAINER $A", commands.Maintainer("$A")),
        (
            "RUN --mount=target=/$A,id=$B a",
            commands.Run(shell="a", mounts=(Mount(target="/x", id="p q", readonly=True),)),
        ),
    ],
)
def test_variables_are_put_in_where_docker_does(text, expected):
    if expected is None:
        with pytest.raises(Invalid, match="can't find ="):
            read(text, expanded=True)
    else:
        assert read(text, expanded=True) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("RUN <<E\na $A\nb\nE", {"shell": "a $A\nb\n"}),
        ("RUN <<-E\n\ta\n\tE", {"shell": "a\n"}),
        ("RUN cat <<E >/x\na\nE", {"shell": "cat <<E >/x\na\nE"}),
        ("RUN cat <<-E 3<<'F'\n\ta\n\tE\nb\nF", {"shell": "cat <<-E 3<<'F'\n\ta\nE\nb\nF"}),
        ("RUN <<E\n#!/bin/x\na\nE", {"script": Heredoc("E", "#!/bin/x\na\n")}),
        ("RUN <<-E\n#!/bin/x\n\ta\nE", {"script": Heredoc("E", "#!/bin/x\na\n")}),
        ("RUN x <<E\n#!/bin/x\nE", {"shell": "x <<E\n#!/bin/x\nE"}),
    ],
)
def test_a_heredoc_of_run_is_its_command_or_is_left_to_the_shell(text, expected):
    run = read(text, expanded=True)
    assert {
        name: getattr(run, name) for name in ("shell", "script", "argv") if getattr(run, name) is not None
    } == expected


def test_a_heredoc_of_copy_is_a_file_with_its_variables_put_in_unless_its_name_is_quoted():
    copy = read("COPY <<a x <<-'b' <<\"c\" /d\n1 $A '\"\na\n\t2 $A\n\tb\n3 $A\nc\n", expanded=True)
    assert copy.sources == ("x",)
    assert copy.destination == "/d"
    assert [(one.name, one.data) for one in copy.heredocs] == [("a", "1 x '\"\n"), ("b", "2 $A\n"), ("c", "3 $A\n")]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("type=bind,target=/a", Mount(target="/a", readonly=True)),
        ("target=/a,rw", Mount(target="/a")),
        ("dst=/a,readwrite=true,src=b,from=c", Mount(source="b", target="/a", from_="c")),
        ("type=cache,destination=/a", Mount("cache", target="/a")),
        (
            "TYPE=Cache,target=/a,id=i,sharing=locked,mode=0700,uid=1,gid=2,ro",
            Mount("cache", target="/a", id="i", sharing="locked", mode=0o700, uid=1, gid=2, readonly=True),
        ),
        ("type=tmpfs,target=/a,size=1.5m", Mount("tmpfs", target="/a", size=3 * 2**19)),
        ("type=tmpfs,target=/a,size=10KiB", Mount("tmpfs", target="/a", size=10240)),
        (
            "type=secret,id=a,env=B,required",
            Mount("secret", id="a", env="B", required=True, readonly=True),
        ),
        ("type=secret,target=/a,mode=400,required=false", Mount("secret", target="/a", mode=0o400, readonly=True)),
        ("type=ssh,required=1", Mount("ssh", required=True, readonly=True)),
        ('type=bind,"target=/a,b"', Mount(target="/a,b", readonly=True)),
    ],
)
def test_a_mount_says(line, expected):
    quoted = line.replace('"', '\\"')
    assert read(f"RUN --mount={quoted} x").mounts == (expected,)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "failed to parse csv mounts: EOF"),
        ("type=x", 'unsupported mount type "x"'),
        ("type=cach", 'unsupported mount type "cach" (did you mean cache?)'),
        ("foo", "invalid field 'foo' must be a key=value pair"),
        ("targt=/a", "unexpected key 'targt' in 'targt=/a' (did you mean target?)"),
        ("type=cache,sharing=x", 'unsupported sharing value "x"'),
        ("sharing=shared", "invalid cache sharing set for bind mount"),
        ("required", "unexpected key 'required' for mount type 'bind'"),
        ("size=1m,type=tmpfs", "unexpected key 'size' for mount type 'bind'"),
        ("type=tmpfs,size=x", "invalid value for size: x"),
        ("ro=maybe", "invalid value for ro: maybe"),
        ("type=cache,mode=9", "invalid value 9 for mode"),
        ("type=cache,uid=-1", "invalid value -1 for uid"),
        ("type=cache,gid=4294967296", "invalid value 4294967296 for gid"),
        ("type=bind,mode=0700", 'mode not allowed for "bind" type mounts'),
        ("type=tmpfs,uid=1", 'uid not allowed for "tmpfs" type mounts'),
        ("type=secret", "invalid secret mount. one of source, target required"),
        ("type=secret,source=a,id=b", "both source and id can't be set"),
        ("type=secret,from=a,id=b", "secret mount should not have a from"),
        ("type=secret,id=b,sharing=shared", "secret mount should not define sharing"),
        ("from=$A", "'from' doesn't support variable expansion, define alias stage instead"),
    ],
)
def test_a_mount_that_cannot_be_is_refused(line, message):
    with pytest.raises(Invalid) as refused:
        read(f"RUN --mount={line} x")
    assert str(refused.value) == message


def test_a_mount_with_variables_is_judged_when_they_are_known():
    assert read("RUN --mount=type=$A,from=b x").mounts == (Mount(from_="b"),)
    with pytest.raises(Invalid, match='unsupported mount type "x"'):
        read("RUN --mount=type=$A x", expanded=True)


def test_the_table_has_every_instruction():
    assert len(instructions.TABLE) == 18
    for keyword, row in instructions.TABLE.items():
        assert keyword == keyword.upper()
        assert callable(row.reader)
