"""Small parsers and tables: names, signals, moments, durations, log options, CPU sets."""

import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.daemon.clock import duration, rfc3339
from engine.daemon.containers import naming
from engine.daemon.containers.output import logconfig
from engine.daemon.containers.security import resources
from engine.daemon.signals import check_sent, parse_signal, sendable
from engine.errors import Invalid, NotBuilt
from engine.logs.drivers import jsonfile, local


@pytest.mark.parametrize(
    ("text", "number"),
    [("9", 9), ("KILL", 9), ("SIGKILL", 9), ("sigterm", 15), ("SIGRTMIN", 34), ("RTMIN+3", 37), ("SIGRTMAX-1", 63)],
)
def test_a_signal_is_read_in_every_form(text, number):
    assert parse_signal(text) == number


@pytest.mark.parametrize("text", ["BOGUS", "", "0", "SIG", "RTMIN+16", "9" * 20, "٣"])
def test_what_is_no_signal_is_refused(text):
    with pytest.raises(Invalid) as caught:
        parse_signal(text)
    assert str(caught.value) == f"invalid signal: {text}"


@pytest.mark.parametrize(("text", "sent"), [("65", False), ("-1", False), ("9999999999", False), ("32", True)])
def test_a_number_that_is_no_signals_is_a_signal_that_is_not_sent(text, sent):
    number = parse_signal(text)
    assert (number, sendable(number)) == (int(text), sent)
    with pytest.raises(Invalid) as caught:
        check_sent(number)
    assert str(caught.value) == f"the linux daemon does not support signal {text}"


def test_the_c_librarys_own_signals_end_a_container():
    assert [parse_signal(text) for text in ("32", "33", "+9")] == [32, 33, 9]


@pytest.mark.parametrize("known", [each for each in signal.Signals if not each.name.startswith("SIGRT")])
def test_every_signal_of_the_host_is_known_by_its_name(known):
    assert parse_signal(known.name) == known


@pytest.mark.parametrize("name", ["ab", "/ab", "A1", "0_.-", "a" * 300])
def test_a_good_name_is_taken_without_its_slash(name):
    assert naming.check(name) == name.removeprefix("/")


@pytest.mark.parametrize("name", ["a", "-bad", "a b", "", "/", "//ab", "ab\n", "é1", ".."])
def test_a_bad_name_is_refused(name):
    with pytest.raises(Invalid) as caught:
        naming.check(name)
    assert str(caught.value) == f"Invalid container name ({name}), only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed"


def test_every_generated_name_is_a_good_one():
    assert all(naming.check(f"{mood}_{ship}") for mood in naming.MOODS for ship in naming.SHIPS)
    assert naming.generate(lambda name: not name[-1].isdigit())[-1].isdigit()


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (0, "0001-01-01T00:00:00Z"),
        (1, "1970-01-01T00:00:00.000000001Z"),
        (1_795_153_093_708_514_755, "2026-11-20T05:38:13.708514755Z"),
        (1_795_153_093_700_000_000, "2026-11-20T05:38:13.7Z"),
    ],
)
def test_a_moment_is_written_as_go_writes_it(moment, text):
    assert rfc3339(moment) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.9, "Less than a second"),
        (1.5, "1 second"),
        (59.9, "59 seconds"),
        (60, "About a minute"),
        (120, "2 minutes"),
        (3599, "59 minutes"),
        (3600, "About an hour"),
        (5400, "2 hours"),
        (47 * 3600, "47 hours"),
        (48 * 3600, "2 days"),
        (14 * 86400, "2 weeks"),
        (60 * 86400, "2 months"),
        (729 * 86400, "24 months"),
        (730 * 86400, "2 years"),
    ],
)
def test_a_duration_is_said_as_docker_says_it(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("module", "options", "limits"),
    [
        (jsonfile, {}, (0, 1, False)),
        (jsonfile, {"max-size": "10m"}, (10_000_000, 1, False)),
        (jsonfile, {"max-size": "10m", "max-file": "3", "compress": "true"}, (10_000_000, 3, True)),
        (local, {}, (20_000_000, 5, False)),
        (local, {"max-size": "10m"}, (10_000_000, 5, False)),
        (local, {"max-file": "3"}, (20_000_000, 3, False)),
        (local, {"max-file": "4294967296"}, (20_000_000, 2**32 - 1, False)),
        (jsonfile, {"max-file": "9223372036854775807"}, (0, 2**32 - 1, False)),
        (local, {"max-size": "1.5kb", "max-file": "2"}, (1500, 2, False)),
        (local, {"max-size": "512", "compress": "false"}, (512, 5, False)),
        (local, {"max-file": "2", "compress": "true"}, (20_000_000, 2, True)),
    ],
)
def test_the_limits_of_a_log(module, options, limits):
    assert module.limits(options) == limits


@pytest.mark.parametrize("module", [jsonfile, local])
@pytest.mark.parametrize("options", [{"max-size": "ten"}, {"max-size": "-1"}, {"max-file": "0"}, {"max-file": "x"}])
def test_a_bad_limit_of_a_log_is_refused(module, options):
    with pytest.raises(Invalid):
        module.limits(options)


def test_a_daemons_options_are_for_its_own_driver():
    defaults = ("json-file", ("max-size=1m", "max-file=2"))
    asked = {"Type": "", "Config": {}}
    assert logconfig.completed(asked, *defaults) == {"Type": "json-file", "Config": {"max-size": "1m", "max-file": "2"}}
    asked = {"Type": "json-file", "Config": {"max-file": "3"}}
    assert logconfig.completed(asked, *defaults)["Config"] == {"max-size": "1m", "max-file": "3"}
    asked = {"Type": "local", "Config": {}}
    assert logconfig.completed(asked, *defaults) == asked


def test_a_log_driver_that_is_not_built_is_refused_in_words():
    for driver in logconfig.UNBUILT_DRIVERS:
        with pytest.raises(NotBuilt, match=rf'HostConfig\.LogConfig: the log driver "{driver}" is not built'):
            logconfig.refuse_what_is_not_built({"Type": driver, "Config": {}})


@given(st.sets(st.integers(0, 300), min_size=1))
def test_a_set_of_processors_is_read_back(numbers):
    assert resources.parse_set(",".join(map(str, numbers))) == numbers


@pytest.mark.parametrize("text", ["", "a", "3-1", "-1", "1,,2", "0-99999999999"])
def test_what_is_no_set_of_processors_is_refused(text):
    with pytest.raises(ValueError, match=r".*"):
        resources.parse_set(text)
