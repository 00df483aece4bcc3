"""Chooses the content type of an answer from several by the request's Accept header (RFC 9110 section 12.5.1).

Pure; used by request threads.
"""

import re

_QUALITY = re.compile(r"0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?")


def choose(accept: str, offers: tuple[str, ...]) -> str:
    """The offer that the client prefers; of two with the same rank the earlier one; the first offer if it accepts none.

    At the same quality an offer that the header names precisely ranks before one that only a wildcard allows.
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
    """(quality, exactness) of an offer, by the most exact media range of the header that covers it; (0, 0) when
    refused.
    """
    for exactness, pattern in ((3, offer), (2, offer.partition("/")[0] + "/*"), (1, "*/*")):
        qualities = [quality for kind, quality in wanted if kind == pattern]
        if qualities:
            return (max(qualities), exactness) if max(qualities) > 0 else (0.0, 0)
    return 0.0, 0
