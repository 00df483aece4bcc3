"""URLs of files, as dockerd 20.10 has asked for them or refused them: each row is one of its answers."""

import pytest

from engine.daemon.images.archives import weburl
from engine.errors import Invalid, SystemFailure


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://h:1/a b/x", "http://h:1/a%20b/x"),
        ("http://h:1/a%20b/x", "http://h:1/a%20b/x"),
        ("http://h:1/a%2Fb/x", "http://h:1/a%2Fb/x"),
        ("http://h:1/é", "http://h:1/%C3%A9"),
        ("http://h:1/a+%2B c", "http://h:1/a++%20c"),
        ("http://h:1/../x/%2e%2e//y/.", "http://h:1/../x/%2e%2e//y/."),
        ("http://h:1/f#part x", "http://h:1/f"),
        ("http://us:pw@h:1/x", "http://us:pw@h:1/x"),
        ("HTTP://h:1/x", "http://h:1/x"),
        ("http://h:1", "http://h:1"),
        ("https://[::1]:80/x", "https://[::1]:80/x"),
        # dockerd sends such a query as it is, and servers refuse it.
        ("http://h:1/q?a b=%20é", "http://h:1/q?a%20b=%20%C3%A9"),
    ],
)
def test_it_is_asked_for_as_go_writes_it(text: str, url: str) -> None:
    assert weburl.normal(text) == url
    assert weburl.normal(url) == url


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("http://h/a%zz", Invalid, 'parse "http://h/a%zz": invalid URL escape "%zz"'),
        ("http://h/a%2", Invalid, 'parse "http://h/a%2": invalid URL escape "%2"'),
        ("http://h/a\nb", Invalid, r'parse "http://h/a\nb": net/url: invalid control character in URL'),
        ("http://h/a\1b", Invalid, r'parse "http://h/a\x01b": net/url: invalid control character in URL'),
        ("http://a b/x", Invalid, 'parse "http://a b/x": invalid character " " in host name'),
        ("http://%61/x", Invalid, 'parse "http://%61/x": invalid URL escape "%61"'),
        ("http://h:1x/x", Invalid, 'parse "http://h:1x/x": invalid port ":1x" after host'),
        ("http://[::1/x", Invalid, "parse \"http://[::1/x\": missing ']' in host"),
        ("http://a b@h/x", Invalid, 'parse "http://a b@h/x": net/url: invalid userinfo'),
        ("http:///data/file.tar", SystemFailure, 'Get "http:///data/file.tar": http: no Host in request URL'),
        ("ftp://h/x", SystemFailure, 'Get "ftp://h/x": unsupported protocol scheme "ftp"'),
        ("nothing", SystemFailure, 'Get "nothing": unsupported protocol scheme ""'),
    ],
)
def test_what_is_no_url_of_the_web_is_refused_in_go_s_words(text: str, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind) as refused:
        weburl.normal(text)
    assert str(refused.value) == words
