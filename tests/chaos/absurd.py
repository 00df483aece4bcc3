"""Values to ask with: ordinary ones, those at the edges of what a type holds, and absurd ones.

Pure data for `generating`. A value is JSON's, or `Raw`, a piece of JSON as it stands, or `Octets`, bytes of a query.
"""

import base64
import json


class Raw(str):
    """A piece of JSON that stands in a body as it is."""

    __slots__ = ()


class Octets(bytes):
    """Bytes of a query that are no text."""

    __slots__ = ()


LONG = 10_000
DIGITS = ("9" * 20, "9" * 400, "9" * 5_000, "-" + "9" * 400)
# Of these Python's int and float take more than Go's functions do.
NUMBERS_AS_TEXT = (
    *("0", "1", "-1", "+1", "-0", "00", "1.5", "1e3", "0x10", "5_0", " 50 ", "50 ", "٣", "²", "NaN", "Infinity"),
    *("2147483647", "2147483648", "4294967296", "9223372036854775807", "9223372036854775808", "-9223372036854775809"),
    *("18446744073709551616", *DIGITS),
)
LENGTHS = (
    *("1s", "1h", "-1h", "1h1", "h", "1.5h", "1e3s", "9" * 400 + "h", "1h" * 1_000, "0." + "9" * 400 + "s"),
    *("2020-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "0000-00-00", "2020-13-45", "10000000000000", "1.9999999999"),
    *("9223372036.854775807", "99999999999999999", "1.5.5", "1." + "9" * 400, "." * 30, "2020-01-01T00:00:00+99:99"),
)
SIZES = ("1k", "10M", "1.5g", "-1m", "1kk", "9" * 400 + "m", "1e400", "0b", "m", "10%", "99999999999999999999g", "max")
PATHS = (
    *(
        "",
        " ",
        "a",
        ".",
        "..",
        "../..",
        "/",
        "//",
        "/../x",
        "a/../b",
        "/" + "a" * LONG,
        "a" * 255,
        "a" * 256,
        "a" * LONG,
    ),
    *(
        "/a\0b",
        "/a b",
        "/a:b",
        "/a,b",
        "/\u202e",
        "/" + "é" * 200,
        "/a/./b/",
        "/dev/null",
        "/proc/self/root",
        "/etc/passwd/x",
    ),
)
NAMES = (
    *(
        "-x",
        "--help",
        "a b",
        "a\nb",
        "a\tb",
        "\x7f",
        "\x01",
        "\0",
        "a\0b",
        "\0" * 300,
        "é",
        "a" * 64,
        "a" * 65,
        "é" * 5_000,
    ),
    *(
        "{",
        "{}",
        "[]",
        "[{}]",
        '"',
        "'",
        "\\",
        "`",
        "$(x)",
        "${x}",
        "%",
        "%00",
        "%s",
        "%n",
        "{0}",
        "{x!r}",
        "*",
        "?",
        "**",
    ),
    *(":", "::", ":::", "a:b:c:d", "a:", ":a", "@", "a@b", "a@sha256:zz", "sha256:", "sha256:" + "a" * 64),
    *(
        "=",
        "=x",
        "a=",
        "a=b",
        ",",
        "a,b",
        ",,",
        ";",
        "a;b",
        "&",
        "#",
        "~",
        "!",
        "<a>",
        "null",
        "true",
        "none",
        "\ufeff",
    ),
    *("host", "bridge", "default", "container:", "container:x", "container:\0", "ns:", "sha256:" + "a" * 5_000),
    *("\u202e", "\U0010ffff", "\u0130", "ß", "[" * 5_000, "SIGKILL", "SIGRTMAX+1", "SIGRTMIN+99999999999"),
    *("ctrl-a", "ctrl-é", "ctrl-" + "a" * 99, "no-new-privileges=x", "label=disable", "seccomp=[", "apparmor=\0"),
)
PLACES = (
    *("a..b", "a" * 64 + ".b", "[", "]", "[::1", "[::1]", "[::1]:80", "[]:5000/x", "a..b/c", "a.b..c:5000/d:e", ".a/b"),
    *("tcp://", "unix://\0", "http://[", "http://a b", "https://" + "a" * 300, "1/tcp", "80/x", "65536/tcp", "1-0"),
    *("1-99999", "80-81/udp", "1.2.3.4", "1.2.3.4/33", "999.1.1.1", "fe80::1%eth0", "::ffff:1.2.3.4", "zz:zz"),
    *("1.2.3.4/" + "9" * 400, "02:42:ac:11:00:02", "localhost:99999/x", "localhost:0/x", "é.test/x", "xn--/x"),
    *("127.0.0.1:" + "9" * 400 + "/x", "a" * 300 + ".test/x", "xn--a.test/x", "linux/amd64", "linux/amd64/v8/x"),
    *("linux/" + "a" * 300, '{"os":"linux"}', '{"os":1}', '{"architecture":{}}', '{"os":"a","architecture":"\\ud800"}'),
)
LONELY = "\ud800"  # half of a surrogate pair
TEXTS = tuple(dict.fromkeys((*PATHS, *NAMES, *PLACES, *NUMBERS_AS_TEXT, *LENGTHS, *SIZES)))
NOT_TEXTS = (Octets(b"\xff"), Octets(b"\xed\xa0\x80"), Octets(b"a\xc0\x80b"))

NUMBERS = (
    *(0, 1, -1, 2, 100, 2**31 - 1, 2**31, -(2**31) - 1, 2**32, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64),
    *map(Raw, ("1.5", "1e3", "1e400", "-0", "-1e-400", "1E5", "0.0", "9" * 400, "-" + "9" * 5_000, "1" + "0" * 18)),
)
DEEP = (Raw("[" * 150 + "]" * 150), Raw("[" * 100_000), Raw('{"a":' * 5_000 + "1" + "}" * 5_000))
OTHERS = (None, True, False, 1, "1", [], {}, [None], [[]], [{}], {"": None}, {"a": {}}, *DEEP)

# What may stand in `filters`, over all operations.
FILTERS = (
    *("ancestor", "before", "since", "exited", "expose", "health", "id", "isolation", "is-task", "label", "label!"),
    *("name", "network", "publish", "status", "volume", "dangling", "reference", "until", "driver", "scope", "type"),
    *(
        "container",
        "daemon",
        "event",
        "image",
        "plugin",
        "capability",
        "enable",
        "is-official",
        "is-automated",
        "stars",
    ),
    *("unused-for", "inuse", "shared", "private", "parent", "description", "mode", "node", "service", "role", "all"),
)
NOT_FILTERS = (
    *("", "{", "[]", "{}", "null", "1", '"a"', '{"a":1}', '{"label":{"a":1}}', '{"label":[1]}', '{"label":null}'),
    *('{"label":{}}', '{"":[""]}', '{"label":["a"]}x', "[" * 100_000, '{"a":' * 300, '{"a":["' + "b" * LONG + '"]}'),
    *(
        '{"\\ud800":["\\ud800"]}',
        '{"label":[' + "9" * 5_000 + "]}",
        '{"a":{"b":true,"c":false}}',
        '{"\\u0000":["\\u0000"]}',
    ),
)


def _encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


CREDENTIALS = (
    *("", " ", "x", "=", "====", "e30=", "e30", "\xff", "\x01", "a" * 60_000, "[]", "{}", "bnVsbA==", "W10=", "Ã©"),
    *map(_encoded, (None, 1, "x", [], [{}], {"username": 1}, {"username": "\0", "password": LONELY}, {"auth": "x"})),
    *map(_encoded, ({"identitytoken": "a" * LONG}, {"auth": "\ud800:x"}, {"a": {"b": {}}}, {"a": {"username": 1}})),
    *map(_encoded, ({"serveraddress": "http://["}, {"serveraddress": "a..b"}, {"username": "a\r\nb", "password": "c"})),
    base64.b64encode(b"[" * 30_000).decode(),
    base64.b64encode(b"{" + b'"a":{' * 3_000).decode(),
    base64.b64encode(b'{"username":"\xff\xfe"}').decode(),
)
CONTENT_TYPES = (
    *("", "text/plain", "application/json; charset=x", "application/json" + " " * 5_000, "\xff/\xff", "a", "/"),
    "application/json;;",
)
NOT_JSON = (
    *(
        b"",
        b" ",
        b"{",
        b"nul",
        b"[]",
        b"1",
        b'"x"',
        b"null",
        b"{}x",
        b"{} {}",
        b"\xff\xfe",
        b"\xef\xbb\xbf{}",
        b"{'a':1}",
    ),
    *(b'{"a":"\xff"}', b"[" * 100_000, b'{"a":' * 50_000, b'{"HostConfig":' * 300 + b"1" + b"}" * 300, b"9" * 5_000),
    *(b"1e999", b"NaN", b'{"a":NaN}'),
)
NOT_TARS = (
    *(b"x", b"\0" * 512, b"\0" * 1024, b"\x1f\x8b\x08" + b"\0" * 50, b"BZh9" + b"x" * 99, b"\xfd7zXZ\0" + b"\0" * 99),
    *(b"\x28\xb5\x2f\xfd" + b"\0" * 99, b"\xff" * 5_000),
)
