"""The words that Dockerfiles are drawn from: those that are right, and beside them those that end a build. Pure."""

from tests.comparison.builds.bases import squeezed
from tests.comparison.builds.case import File

# What may be in a context.
FILES: tuple[tuple[File, ...], ...] = (
    (File("a.txt", text="a\n"),),
    (File("a.txt", text="a\n"),),
    (File("a.tar.gz", text=squeezed()),),
    (File("b.txt", text="bb\n"), File("c.md", text="c c\n", mode=0o600)),
    (File("with space.txt", text="space\n"),),
    (File("dir/x", text="x\n"), File("dir/y.md", text="y\n"), File("dir/sub/z.txt", text="z\n", mode=0o640)),
    (File("dir/x", text="x\n"), File("dir/.hidden", text="h\n"), File("dir/sub/deep/q", text="q\n")),
    (File("run.sh", text="#!/bin/sh\necho $1\n", mode=0o755),),
    (File("set", text="s\n", mode=0o4755), File("sticky", kind="dir", mode=0o1777)),
    (File("a.txt", text="a\n"), File("link", "link", "a.txt"), File("broken", "link", "nosuch")),
    (File("dir/x", text="x\n"), File("dir/up", "link", "../a.txt"), File("to-dir", "link", "dir")),
    (File("absolute", "link", "/etc/passwd"), File("out", "link", "../../etc")),
    (File("a.txt", text="a\n"), File("same", "hard", "a.txt")),
    (File("empty", kind="dir", mode=0o700), File("none", text="")),
    (File("[x]", text="brackets\n"), File("é", text="accent\n"), File("q?", text="q\n")),
    (File("vars", text="${X}\n$Y\n"), File("crlf", text="one\r\ntwo\r\n")),
    (File(".dockerignore", text="*.md\n!dir/y.md\n"), File("dir/y.md", text="y\n"), File("c.md", text="c\n")),
    (File(".dockerignore", text="dir\n!dir/x\n# note\n\n**/q\n"), File("dir/x", text="x\n"), File("dir/o", text="o")),
    (File("t1/f", text="1\n"), File("t2/f", text="2\n"), File("t1/g/h", text="h\n"), File("t2/g/i", text="i\n")),
    (File("n" * 120, text="long\n"), File("l/" + "d" * 90 + "/" + "e" * 90, text="deep\n")),
)
ANYWHERE = (".", "./", "/", "*", "**", "*.*")
SOURCES = (
    *(
        "a.txt",
        "c.md",
        "dir",
        "dir/",
        "dir/x",
        "dir/*",
        "*.txt",
        "to-dir/x",
        "[[]x]",
        "dir/./sub",
        "t*/f",
        "t?/g",
        "*/x",
    ),
    *("d*/**", "nosuch", "nosuch*", "../a.txt", "dir/../a.txt", "$X.txt", "${Y:-a}.txt", "dir/**/q", "dir/up", "[", ""),
)
INNER = (
    "/etc/passwd",
    "/etc",
    "/etc/",
    "/keep",
    "/keep/*",
    "/lnk",
    "/lnk/*",
    "/lnk/sub",
    "/",
    "keep/sub",
    "/keep/./sub",
    "/*",
    "/w",
)
TARGETS = (
    *("/", "/d/", "/d", ".", "./", "d", "d/", "/new/deep/", "/new/deep/f", "/etc/", "/lnk/", "/lnk/", "/lnk/f", "/$X/"),
    *("/${Y:-y}/f", "../up/", "/with space/", "/new/", "/bin", "/a/../b/", "//d//e/", "/keep/sub/", "/etc/passwd"),
)
ODD_TARGETS = ("", "/dir", "/dir/sub/", "/w", "/w/", "$Y", "/lnk", "/etc/passwd/", "/dir/..")
VALUES = (
    *("1", "a", "a.b", "two words", "", "x=y", "$X", "${X}", "${Y:-def}", "${Y-def}", "${X:+alt}", "${X+alt}", "é"),
    *("${X#a}", "${X##*.}", "${X%b}", "${X%%.*}", "${X/a/b}", "${X//a/b}", "\\$X", "a\\ b", "'$X'", '"$X"', "$X$Y"),
    *('"two $X"', '"a\\"b"', "pre${X}post", "${X:-${Y:-z}}", "$PATH", "a#b", "/opt/$X", "${TARGETARCH}", "a\\nb", "$$"),
    *(
        "$TARGETPLATFORM",
        "${BUILDPLATFORM}",
        "$1",
        "${X:-'q'}",
        '${X:+"q q"}',
        "$BASE",
        "${X#*}",
        "${X/./}",
        "${X/%b/c}",
    ),
)
WRONG_VALUES = (
    "${Y:?no y}",
    "${X?}",
    "'it''s'",
    "${X",
    "$",
    "${}",
    "'",
    '"',
    "${X:}",
    "${X^}",
    "${X:=d}",
    "${X#",
    "\\",
)
NAMES = ("X", "Y", "Z", "X", "Y", "Q", "PATH", "BASE", "x.y", "A-B")
ODD_NAMES = ("é", "9", "", "$X", "SOURCE_DATE_EPOCH", "TARGETARCH", "HTTP_PROXY", "a b", "'q'")
PREDEFINED = (
    *("TARGETPLATFORM", "TARGETARCH", "TARGETVARIANT", "TARGETOS", "BUILDPLATFORM", "BUILDARCH", "HTTP_PROXY"),
    *("SOURCE_DATE_EPOCH", "BUILDKIT_CONTEXT_KEEP_GIT_DIR", "TARGETSTAGE", "B"),
)
KEYS = ("a", "b.c", "$X", "${Y:-y}", '"q q"', "of")
OWNERS = (
    "1",
    "1:2",
    "0",
    "0:0",
    "root",
    "nobody",
    "mail:mail",
    "nobody:12",
    "7:mail",
    "${Y:-5}",
    "65534:65534",
    "01:02",
    "root:7",
)
WRONG_OWNERS = ("nosuch", "$X", "1:nosuch", "4294967295", "-1", "a:b:c", "", ":5", "99999999999")
MODES = (
    "755",
    "0644",
    "4755",
    "1777",
    "0",
    "7777",
    "u+x",
    "go-r",
    "a=rX",
    "u=rw,g=r,o=",
    "+x",
    "u+s,o+t",
    "${M:-700}",
    "g=u",
)
WRONG_MODES = ("999", "$M", "", "x", "77777", "u+", "-1", "u+x,", "0o755")
EXCLUDED = ("*.md", "dir/x", "**/q", "sub", "**/sub", "*", "x", "$X*", "keep/sub", "*/a.txt")
TEXTS = ("one\n$X\n", "\tindented $Y\n", "", "${X:-d}\n\\$X\n", "one\n\n two\\\n")
PATHS = (
    "/w2",
    "w2",
    "/w2/x/",
    ".",
    "../y",
    "/",
    "/$X",
    "/${Y:-y}/z",
    "/lnk",
    "a b",
    "/bin",
    "/etc/",
    "//v//u",
    "/v/../t",
    "/keep",
    "'q'",
    '"/q q"',
)
COMMANDS = (
    *("echo one >/one", "rm /etc/group", "rm -r /home && mkdir /home", "mkdir -p /m/n && touch /m/n/o", "touch /etc/x"),
    *("ln -s /etc /l1; ln /etc/passwd /l2", "chmod 700 /etc", "mknod /fifo p", "mv /keep /kept", "rm -rf /keep/sub"),
    *("echo $X >/x; echo $Y >>/x", "chown 5:6 /etc/passwd", "touch -d @1400000000 /old", "true", "pwd >/p; id >>/p"),
    *(
        "chmod 4755 /bin/busybox",
        "env | grep -vi proxy | sort >/env",
        "rm -f /lnk; mkdir -p /lnk",
        "cat /etc/hosts >/h; rm /h",
    ),
    *("rm -r /etc; mkdir /etc; touch /etc/y", "mkdir /m1; mkdir /m1/m2; chmod 0 /m1/m2; rm /dir", "touch /etc; true"),
)
MOUNTS = (
    *(
        "type=cache,target=/c",
        "type=tmpfs,target=/t",
        "type=bind,target=/b",
        "type=bind,from=base,source=/etc,target=/b",
    ),
    *("type=cache,target=/c/d,mode=0700,uid=5", "type=tmpfs,target=/t/u,size=1m", "type=cache,target=c,sharing=locked"),
    *("type=secret,id=s", "target=/b", "type=bind,target=/b,rw", "type=bind,from=base,source=keep,target=/tmp"),
)
WRONG_MOUNTS = (
    *(
        "type=secret,id=s,required=true",
        "type=nosuch,target=/x",
        "type=bind,source=nosuch,target=/b",
        "type=cache",
        "x",
    ),
    *(
        "type=bind,from=0,target=/b",
        "type=bind,source=dir,target=/b",
        "type=tmpfs",
        "type=cache,target=/c,sharing=x",
        "",
    ),
)
BASES = ("scratch", "base", "base", "base", "base", "onbuild", "plain", "base:latest", "$B", "${B:-base}")
WRONG_BASES = ("127.0.0.1:1/nosuch", "${Q:-}", "s9", "Base", "base:a b", "$X", "base@sha256:00")
PLATFORMS = ("linux/amd64", "linux/arm64", "linux/arm/v7", "$BUILDPLATFORM", "$TARGETPLATFORM", "linux/arm", "linux")
GIVEN = ("linux/amd64", "linux/arm64", "linux/amd64,linux/arm64", "linux/arm/v7", "linux/amd64/v2", "linux/arm64/v8")
# Instructions that change the config alone: what is right after them, and what is wrong.
OTHERS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "USER": (("nobody", "1", "1:2", "mail:mail", "root", "${Y:-7}"), ("$X", "nosuch", ":5", "")),
    "EXPOSE": (
        ("80", "80/tcp", "53/udp", "8000-8002", "80 443/tcp", "80/TCP"),
        ("$X", "80/nosuch", "1:2", "70000", ""),
    ),
    "VOLUME": (("/v", '["/v", "/w"]', "/v /w", "rel", "$X"), ("", "[]", '[""]', '["/v"')),
    "CMD": (("sh", "echo $X", '["sh"]', '["sh", "-c", "$X"]', "[]", '[ "a" , "b" ]', "a  b"), ('["a"', "", "['a']")),
    "ENTRYPOINT": (("sh", '["sh"]', "[]", "a  b"), ('["a", 1]', "")),
    "SHELL": (('["/bin/sh", "-c"]', '["/bin/sh", "-ec"]'), ("sh", "[]", "")),
    "STOPSIGNAL": (("9", "SIGTERM", "SIGRTMIN+3"), ("nosuch", "$X", "")),
    "HEALTHCHECK": (
        ("CMD true", 'CMD ["a", "b"]', "NONE", "CMD $X", "--interval=5s CMD x", "--timeout=1m30s --retries=2 CMD x"),
        ("CMD", "nosuch", "", "--interval=1ns CMD x", "--retries=-1 CMD x", "--start-interval=2s CMD x", "NONE x"),
    ),
    "MAINTAINER": (("a b", "$X"), ("",)),
}
ATTRIBUTES = (
    ("oci-mediatypes", "false", 0.1),
    ("name", "example.com/made:1", 0.2),
    ("annotation.a", "b", 0.05),
    ("annotation-index.a", "b", 0.03),
    ("annotation-manifest-descriptor.a", "b", 0.03),
)
