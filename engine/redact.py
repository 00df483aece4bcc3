"""Hides the credentials in whatever is shown: a URL's user and password become `xxxxx`, as with dockerd and BuildKit.

Pure. Each failure's text (`errors`) and each line of the daemon's log passes `redacted`, and so does each text about a
build or an import that has a client's URL in it: names of steps, histories, descriptions in the cache, provenance.
"""

from engine.regex import regex

MASK = "xxxxx"
# A port and what may follow it: in a command it may be a variable, and a sign of the shell or of a sentence may follow.
_PORT = r"(?:\d*|\$[A-Z_][A-Z_0-9]*|\$\{\w+(?::?[-+?]\w*)?\})(?:[/?#\s\"'`\\;,&|()<>\]}]|[:.](?:\s|\Z)|\Z)"
# What stands before the host: all up to an `@`, or else a name before a colon and what is no port. There a password has
# a slash or a blank that should have been escaped, and goes on until an `@`.
_BEFORE_HOST = regex(rf"://(?:([^\s/?#]*)@|[^\s/?#@\[:]*:(?!{_PORT}))")
_PASSWORD = regex(r"[^\n\"]{0,256}@")
_END = regex(r"[@\n\"]")
_REACH = 256  # as in _PASSWORD
_IMAGES = ("docker-image://", "oci-layout://")  # there an `@` stands before a digest


def redacted(text: str) -> str:
    """A text with the credentials hidden in each URL in it. Takes time in proportion to a hostile text's length."""
    if "://" not in text or "@" not in text:
        return text
    shown, done, end = list[str](), 0, -1
    for found in _BEFORE_HOST.finditer(text):
        start, after = found.start() + 3, found.end()
        if start < done:
            continue
        if found[1] is None:
            if end < after:  # else it is still the next one
                if (next_end := _END.search(text, after)) is None:
                    break
                end = next_end.start()
            if text[end] != "@" or end - after > _REACH or (password := _PASSWORD.match(text, after)) is None:
                continue
            after = password.end()
        shown += (text[done:start], _hidden(text, start, text[start : after - 1]))
        done = after
    return "".join((*shown, text[done:]))


def proxy(text: str) -> str:
    """A proxy's URL, which need not have a scheme, as `docker info` shows it."""
    before, at, place = text.rpartition("@")
    scheme = before.partition("://")[0] + "://" if "://" in before else ""
    return f"{scheme}{MASK}:{MASK}@{place}" if at else text


def _hidden(text: str, start: int, credentials: str) -> str:
    if text.endswith(_IMAGES, 0, start):
        return f"{credentials}@"
    user, colon, _ = credentials.partition(":")
    if user and not text.endswith("ssh://", 0, start):  # there a user's name is no secret
        user = MASK
    return f"{user}:{MASK}@" if colon else f"{user}@"
