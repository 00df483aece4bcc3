"""Which build arguments a step sees."""

from engine.daemon.builder.arguments import Arguments


def test_what_the_client_gives_goes_before_defaults_and_null_before_nothing() -> None:
    arguments = Arguments({"a": "given", "b": None}, {})
    stage = arguments.of_stage()
    for name, default in (("a", "1"), ("b", "2"), ("c", "3"), ("d", None)):
        stage.declare(name, default)
    assert stage.visible() == {"a": "given", "b": "2", "c": "3"}


def test_one_before_the_first_from_is_seen_by_a_stage_that_names_it_again() -> None:
    arguments = Arguments({}, {"TARGETOS": "linux"})
    arguments.declare_before("v", "1")
    assert arguments.of_from() == {"TARGETOS": "linux", "v": "1"}
    stage = arguments.of_stage()
    assert stage.visible() == {}
    stage.declare("v", None)
    stage.declare("TARGETOS", None)
    assert stage.visible() == {"v": "1", "TARGETOS": "linux"}
    stage.declare("v", "own")
    assert stage.visible()["v"] == "own"


def test_stages_do_not_see_each_others() -> None:
    arguments = Arguments({"x": "1"}, {})
    one, two = arguments.of_stage(), arguments.of_stage()
    one.declare("x", None)
    assert one.visible() == {"x": "1"} and two.visible() == {}


def test_proxies_are_seen_unasked_and_shown_only_where_they_are_named() -> None:
    arguments = Arguments({"http_proxy": "p", "NO_PROXY": "n", "other": "o"}, {})
    stage = arguments.of_stage()
    assert stage.visible() == {"http_proxy": "p", "NO_PROXY": "n"}
    assert stage.shown(stage.visible()) == []
    stage.declare("http_proxy", None)
    assert stage.shown(stage.visible()) == ["http_proxy"]


def test_what_nothing_has_asked_for_is_known_over_all_stages() -> None:
    arguments = Arguments({"a": "1", "b": "2", "c": "3", "HTTPS_PROXY": "p"}, {})
    arguments.declare_before("a", None)
    arguments.of_stage().declare("b", None)
    assert arguments.unused() == ["c"]
