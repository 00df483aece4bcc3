"""Choosing a content type by Accept."""

import pytest

from engine.daemon.api.negotiation import choose

OFFERS = ("application/jsonl", "application/x-ndjson", "application/json-seq")


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        ("", 0),
        ("*/*", 0),
        ("application/*", 0),
        ("text/html", 0),
        ("application/json-seq", 2),
        ("application/x-ndjson", 1),
        ("APPLICATION/X-NDJSON", 1),
        ("application/json-seq, application/x-ndjson", 1),
        ("application/json-seq;q=0.9, application/x-ndjson;q=0.1", 2),
        ("application/json-seq; q=0.5, */*", 0),
        ("*/*, application/json-seq", 2),
        ("application/jsonl;q=0, */*", 1),
        ("application/json-seq;q=nonsense", 0),
        ("application/json-seq;q=7, application/x-ndjson", 1),
        (";;;,,,=", 0),
    ],
)
def test_the_best_liked_offer_is_taken(accept, chosen):
    """The earlier of two that are liked the same, and the first when none is."""
    assert choose(accept, OFFERS) == OFFERS[chosen]
