"""The keys of the cache, and which images of `cachefrom` go on from another."""

from engine.daemon.builder import cache


def key(parent: str = "p", platform: str = "linux/amd64", config: dict | None = None, **step: object) -> str:
    return cache.key_of(parent, platform, config or {"Env": ["A=1"]}, {"kind": "RUN", "text": "x", **step})


def test_everything_that_decides_is_in_the_key() -> None:
    keys = [
        key(),
        key(parent="q"),
        key(platform="linux/arm64"),
        key(config={"Env": ["A=2"]}),
        key(config={"Env": ["A=1"], "Healthcheck": {"Test": ["CMD", "x"]}}),
        key(text="y"),
        key(kind="COPY"),
        key(env=["B=1"]),
        key(digest="d"),
    ]
    assert len(set(keys)) == len(keys)
    assert key() == key()


def config(*steps: tuple[str, bool], layers: int) -> dict:
    history = [
        {"created": "t", "created_by": text, **({} if filled else {"empty_layer": True})} for text, filled in steps
    ]
    diff_ids = [f"sha256:{number:064}" for number in range(layers)]
    return {"history": history, "rootfs": {"type": "layers", "diff_ids": diff_ids}}


BASE = config(("a", True), layers=1)
ABOVE = config(("a", True), ("b", False), ("c", True), layers=2)


def test_an_image_goes_on_from_a_base_whose_history_and_layers_it_begins_with() -> None:
    assert cache._next_step(ABOVE, BASE) == 1
    assert cache._next_step(ABOVE, {}) == 0
    assert cache._next_step(BASE, BASE) is None
    assert cache._next_step(BASE, ABOVE) is None


def test_another_history_or_another_layer_is_another_image() -> None:
    assert cache._next_step(ABOVE, config(("other", True), layers=1)) is None
    changed = config(("a", True), layers=1)
    changed["rootfs"]["diff_ids"] = ["sha256:" + "f" * 64]
    assert cache._next_step(ABOVE, changed) is None


def test_a_history_that_is_none_is_no_proof_of_anything() -> None:
    for broken in (None, "text", [1], {"a": 1}):
        assert cache._next_step({**ABOVE, "history": broken}, BASE) is None
