"""Which of several content types an answer is to have, by the request's Accept (RFC 9110 section 12.5.1).

Pure; used by request threads.
"""

import re

_QUALITY = re.compile(r"0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?")


def choose(accept: str, offers: tuple[str, ...]) -> str:
    """The offer that the client likes best, the earlier one of two that it likes the same; the first if it likes none.

    What it names is liked better than what it only allows.
    """
    wanted = [_range(text) for text in accept.split(",")]
    ranks = [_liked(offer, wanted) for offer in offers]
    return offers[ranks.index(max(ranks))]


def _range(text: str) -> tuple[str, float]:
    kind, *parameters = (part.strip(" \t").lower() for part in text.split(";"))
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name == "q":
            return kind, float(value) if _QUALITY.fullmatch(value) else 0.0
    return kind, 1.0


def _liked(offer: str, wanted: list[tuple[str, float]]) -> tuple[float, int]:
    """(quality, exactness) of an offer: what the most exact range says of it that means it at all."""
    for exactness, pattern in ((3, offer), (2, offer.partition("/")[0] + "/*"), (1, "*/*")):
        qualities = [quality for kind, quality in wanted if kind == pattern]
        if qualities:
            return (max(qualities), exactness) if max(qualities) > 0 else (0.0, 0)
    return 0.0, 0
