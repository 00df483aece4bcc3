"""Layers that somebody gives to a build: each is what it is said to be, whether it is unpacked now or was before."""

import gzip
import io
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.daemon.builder.graph.keeper import EMPTY_LAYER, Keeper
from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.images import image as documents
from engine.daemon.images.layers import comparing
from engine.daemon.jsontext import Object
from engine.daemon.tar.compression import Unpacked
from engine.daemon.tar.writer import END
from engine.errors import EngineError, Invalid
from tests.unit.images.made import archive, digest, member, store


class Gone(EngineError):
    """The caller has gone."""


def nothing() -> None:
    """Somebody waits all the time."""


def given(keeper: Keeper, blob: bytes) -> Object:
    """The descriptor of a blob that the build was given."""
    keeper.pin([digest(blob)])
    keeper.store.content.put(blob)
    return documents.descriptor(f"{documents.OCI_LAYER}+gzip", digest(blob), len(blob))


def refused(keeper: Keeper, diff_id: str, part: Object, check: Callable[[], None] = nothing) -> bool:
    """Whether the blob is refused as that layer."""
    try:
        keeper.borrowed(diff_id, part, Snapshot(), check)
    except Invalid:
        return True
    return False


def test_a_step_without_changes_has_a_layer_with_buildkit_alone(tmp_path: Path) -> None:
    """Which has no members, whether the step has packed nothing or has found nothing to pack."""
    images = store(tmp_path)
    for traces in (False, True):
        with Keeper(images, traces) as keeper, keeper.incoming() as blob:
            below = Snapshot()
            found = [keeper.packed(io.BytesIO(END), below), *keeper.added(blob, None, below).parts]
            assert [part is not None and part.layer.diff_id for part in found] == (
                [EMPTY_LAYER, EMPTY_LAYER] if traces else [False]
            )


def test_a_blob_that_is_said_to_be_a_layer_that_is_there_is_looked_at(tmp_path: Path) -> None:
    """Else whoever knows a digest has the layer of another, and steps on it are kept with a blob that is no such layer:
    the next build that makes them pushes it.
    """
    private = archive(member("secret", b"of another client"))
    lie = gzip.compress(archive(member("anything", b"else")))
    images = store(tmp_path)
    with Keeper(images) as owner:
        own = given(owner, gzip.compress(private))
        assert not refused(owner, digest(private), own)
        with Keeper(images) as other:
            part = given(other, lie)
            for _ in range(2):
                assert refused(other, digest(private), part)
            assert not refused(other, digest(private), given(other, gzip.compress(private, 1)))
            assert not refused(other, digest(private), own)


def test_what_was_looked_at_once_is_known_to_the_next_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tar = archive(member("z", os.urandom(10)))
    images = store(tmp_path)
    looked: list[object] = []
    monkeypatch.setattr(comparing, "Unpacked", lambda blob: looked.append(blob) or Unpacked(blob))
    with Keeper(images) as owner, Keeper(images) as other, Keeper(images) as third:
        first, second = gzip.compress(tar, 9), gzip.compress(tar, 1)
        assert not refused(owner, digest(tar), given(owner, first))
        for each in (other, third):
            assert not refused(each, digest(tar), given(each, second))
            assert not refused(each, digest(tar), given(each, first))
    assert len(looked) == 1


def test_looking_at_a_blob_ends_with_its_build(tmp_path: Path) -> None:
    tar = archive(member("x", os.urandom(10)))
    images = store(tmp_path)

    def gone() -> None:
        raise Gone

    with Keeper(images) as owner, Keeper(images) as other:
        assert not refused(owner, digest(tar), given(owner, gzip.compress(tar, 9)))
        with pytest.raises(Gone):
            other.borrowed(digest(tar), given(other, gzip.compress(tar, 1)), Snapshot(), gone)
