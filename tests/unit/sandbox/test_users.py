"""Who a container runs as, from the texts of passwd and group."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import Invalid
from engine.sandbox.users import Identity, resolve

PASSWD = "# comment\nroot:x:0:0:root:/root:/bin/sh\nbroken:x:abc\nfoo:x:1000:1001::/home/foo:\n12:x:7:8:::\n"
GROUP = "root:x:0:root\nwheel:x:10:root,foo\nfoo:x:1001:\nempty:x:55\n"


@pytest.mark.parametrize(
    ("user", "additional", "expected"),
    [
        ("", (), Identity(0, 0, (0, 10), "/root")),
        ("root", (), Identity(0, 0, (0, 10), "/root")),
        ("foo", (), Identity(1000, 1001, (1001, 10), "/home/foo")),
        ("1000", (), Identity(1000, 1001, (1001, 10), "/home/foo")),
        ("foo:wheel", (), Identity(1000, 10, (10,), "/home/foo")),
        ("foo:99", ("wheel", "empty", "4"), Identity(1000, 99, (99, 10, 55, 4), "/home/foo")),
        (":wheel", (), Identity(0, 10, (10,), "/root")),
        ("5", (), Identity(5, 0, (0,), "/")),
        ("007", (), Identity(7, 8, (8,), "/")),
    ],
)
def test_users_are_resolved_as_docker_does(user: str, additional: tuple[str, ...], expected: Identity) -> None:
    assert resolve(user, additional, PASSWD, GROUP) == expected


@pytest.mark.parametrize("number", ["12", "1000", "2147483647", "0005"])
def test_a_number_is_never_somebodys_name(number: str) -> None:
    """CVE-2016-3697: an image whose passwd has a user of that name, who is root, makes root of nobody."""
    passwd, group = f"{number}:x:0:0::/root:\n", f"{number}:x:0:{number}\n"
    wanted = int(number)
    assert resolve(number, (), passwd, group) == Identity(wanted, 0, (0,), "/")
    assert resolve(f"{number}:{number}", (number,), passwd, group) == Identity(wanted, wanted, (wanted,), "/")


@pytest.mark.parametrize("number", ["2147483648", "4294967296", "18446744073709551616", "9" * 400])
def test_a_number_that_is_no_id_is_nobodys_name_either(number: str) -> None:
    """CVE-2026-46680 and CVE-2024-40635: neither the name of a root of the image's, nor 0 by what is left of it."""
    passwd, group = f"{number}:x:0:0::/root:\n", f"{number}:x:0:\n"
    for user, additional in ((number, ()), (f"5:{number}", ()), ("5", (number,))):
        with pytest.raises(Invalid, match="uids and gids must be in range"):
            resolve(user, additional, passwd, group)


def test_without_files_numbers_still_work() -> None:
    assert resolve("", (), "", "") == Identity(0, 0, (0,), "/")
    assert resolve("3:4", ("5",), "", "") == Identity(3, 4, (4, 5), "/")


@pytest.mark.parametrize(
    ("user", "additional", "text"),
    [
        ("nobody-here", (), "unable to find user nobody-here: no matching entries in passwd file"),
        ("-1", (), "uids and gids must be in range 0-2147483647"),
        ("0:-1", (), "uids and gids must be in range 0-2147483647"),
        ("-", (), "unable to find user -: no matching entries in passwd file"),
        ("foo:nope", (), "unable to find group nope: no matching entries in group file"),
        ("", ("nope",), "unable to find group nope: no matching entries in group file"),
        ("4294967295", (), "uids and gids must be in range 0-2147483647"),
    ],
)
def test_what_cannot_be_found_is_told_in_dockers_words(user: str, additional: tuple[str, ...], text: str) -> None:
    with pytest.raises(Invalid) as caught:
        resolve(user, additional, PASSWD, GROUP)
    assert str(caught.value) == text


@given(
    st.text(alphabet="a0:\n,-²", max_size=60),
    st.text(alphabet="a0:\n,-²", max_size=60),
    st.sampled_from(("", "a", "0", "a:0")),
)
def test_no_file_breaks_the_parser(passwd: str, group: str, user: str) -> None:
    try:
        found = resolve(user, (), passwd, group)
    except Invalid:
        return
    assert found.gid == found.groups[0]


@pytest.mark.parametrize("number", ["99999999999", "9" * 5000, "2147483648", "-1", "٣"])
def test_a_line_with_a_number_that_is_no_id_is_passed_over(number: str) -> None:
    passwd = f"odd:x:{number}:0::/:\nodd:x:5:{number}::/:\nodd:x:6:7::/odd:\n"
    group = f"odd:x:{number}:odd\nodd:x:8:odd\n"
    assert resolve("odd", ("odd",), passwd, group) == Identity(6, 7, (7, 8), "/odd")


def test_a_user_of_thousands_of_digits_is_out_of_range() -> None:
    with pytest.raises(Invalid, match="uids and gids must be in range"):
        resolve("9" * 5000, (), "", "")
    assert resolve("0" * 5000 + "5", (), "", "").uid == 5
