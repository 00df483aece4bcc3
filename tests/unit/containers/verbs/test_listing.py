"""The listing and its filters."""

import time

import pytest

from engine.daemon.containers.record import State
from engine.daemon.containers.verbs.create import create
from engine.daemon.containers.verbs.inspect import inspect
from engine.daemon.containers.verbs.listing import AskedListing, list_containers, status_text
from engine.daemon.network.record import Published
from engine.dataclass import replace
from engine.errors import Invalid, NotFound
from tests.unit.containers import recorded
from tests.unit.containers.fakes import BUSYBOX, make_engine
from tests.unit.containers.verbs.test_inspect import COMMAND, kinds

LISTED, WITH_SIZES, BAD_STATUS = 115, 116, 121
SECOND = 1_000_000_000


@pytest.fixture
def engine(tmp_path):
    """Three containers, oldest first: one (created), two (exited with 3), three (running)."""
    engine = make_engine(tmp_path)
    create(engine, "rec-one", {"Image": "busybox:latest", "Cmd": COMMAND, "Labels": {"a": "1", "b": ""}}, None)
    two, _ = create(engine, "rec-two", {"Cmd": ["x"], "ExposedPorts": {"80/tcp": {}}}, None)
    three, _ = create(engine, "three", {"Image": "busybox", "HostConfig": {"NetworkMode": "none"}}, None)
    now = time.time_ns()
    two.state = State("exited", exit_code=3, started_ns=now - 9 * SECOND, finished_ns=now - 5 * SECOND)
    three.state = State("running", pid=1, started_ns=now - 130 * SECOND)
    return engine


def names(engine, **asked) -> list[str]:
    return [entry["Names"][0] for entry in list_containers(engine, AskedListing(**asked))]


def test_a_container_is_shown_as_dockerd_shows_it(engine):
    expected = next(entry for entry in recorded.answer(LISTED) if entry["Names"] == ["/rec-one"])
    shown = list_containers(engine, AskedListing(all=True))[-1]
    assert list(shown) == list(expected)
    assert kinds(shown) == kinds({**expected, "Labels": {"a": "", "b": ""}})
    for key in ("Image", "ImageID", "ImageManifestDescriptor", "Command", "State", "Status", "HostConfig", "Health"):
        assert shown[key] == expected[key]
    assert shown["NetworkSettings"] == expected["NetworkSettings"]


def test_a_container_without_an_image_has_no_labels_and_no_descriptor(engine):
    expected = next(entry for entry in recorded.answer(LISTED) if entry["Image"] == "")
    shown = list_containers(engine, AskedListing(all=True))[1]
    assert list(shown) == list(expected)
    assert (shown["Labels"], shown["ImageID"]) == (None, "")


def test_sizes_stand_in_every_entry_when_asked_for(engine):
    shown = list_containers(engine, AskedListing(all=True, size=True))
    assert all(set(entry) >= {"SizeRw", "SizeRootFs"} for entry in shown)
    assert set(shown[-1]) == set(recorded.answer(WITH_SIZES)[2])


def test_only_running_ones_are_shown_without_all_newest_first_with_it(engine):
    assert names(engine) == ["/three"]
    assert names(engine, all=True) == ["/three", "/rec-two", "/rec-one"]
    assert names(engine, limit=2) == ["/three", "/rec-two"]
    assert names(engine, limit=-1) == ["/three"]


def test_a_running_container_shows_its_exposed_ports_and_one_that_ended_does_not(engine):
    two = engine.containers.find("rec-two")
    two.config["ExposedPorts"] = {"80/tcp": {}, "53-54/udp": {}, "an image's/nonsense": {}}
    assert list_containers(engine, AskedListing(all=True))[1]["Ports"] == []
    two.state.status = "running"
    assert list_containers(engine, AskedListing())[1]["Ports"] == []
    (endpoint,) = engine.networks.join(two.id, two.networking)
    assert list_containers(engine, AskedListing())[1]["Ports"] == [
        {"PrivatePort": 53, "Type": "udp"},
        {"PrivatePort": 54, "Type": "udp"},
        {"PrivatePort": 80, "Type": "tcp"},
    ]
    assert inspect(engine, two)["NetworkSettings"]["Ports"] == {"53/udp": None, "54/udp": None, "80/tcp": None}
    published = Published(80, "tcp", "0.0.0.0", 8080), Published(80, "tcp", "::", 8080)
    engine.networks.update(replace(endpoint, ports=published))
    assert list_containers(engine, AskedListing())[1]["Ports"][2:] == [
        {"IP": "0.0.0.0", "PrivatePort": 80, "PublicPort": 8080, "Type": "tcp"},
        {"IP": "::", "PrivatePort": 80, "PublicPort": 8080, "Type": "tcp"},
    ]
    assert inspect(engine, two)["NetworkSettings"]["Ports"]["80/tcp"] == [
        {"HostIp": "0.0.0.0", "HostPort": "8080"},
        {"HostIp": "::", "HostPort": "8080"},
    ]
    for filters, found in (
        ({"expose": ("70-90/tcp",)}, ["/rec-two"]),
        ({"expose": ("80/udp",)}, []),
        ({"publish": ("8080",)}, ["/rec-two"]),
        ({"publish": ("80",)}, []),
        ({"publish": ("80",), "expose": ("53/udp",)}, ["/rec-two"]),
        ({"publish": ("80",), "expose": ("80",), "name": ("three",)}, []),
    ):
        assert names(engine, filters=filters) == found
    engine.networks.leave([endpoint])
    engine.networks.join(two.id, {"host": two.networking["bridge"]})
    assert list_containers(engine, AskedListing())[1]["Ports"] == []


def test_an_untagged_image_is_shown_by_its_id(engine):
    del engine.images.by_name["busybox:latest"]
    assert list_containers(engine, AskedListing(all=True))[-1]["Image"] == BUSYBOX


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"status": ("exited", "created")}, ["/rec-two", "/rec-one"]),
        ({"name": ("rec-",)}, ["/rec-two", "/rec-one"]),
        ({"name": ("^/three$", "[")}, ["/three"]),
        ({"label": ("a",)}, ["/rec-one"]),
        ({"label": ("a=1", "b=")}, ["/rec-one"]),
        ({"label": ("a=1", "c")}, []),
        ({"exited": ("3",)}, ["/rec-two"]),
        ({"exited": ("0",)}, []),
        ({"before": ("three",)}, ["/rec-two", "/rec-one"]),
        ({"since": ("rec-one",)}, ["/three", "/rec-two"]),
        ({"before": ("three", "rec-two")}, ["/rec-one"]),
        ({"before": ("three",), "since": ("rec-one",)}, ["/rec-two"]),
        ({"ancestor": ("busybox",)}, ["/three", "/rec-one"]),
        ({"ancestor": ("nope",)}, []),
        ({"ancestor": ("NOPE!",)}, []),
        ({"network": ("none",)}, ["/three"]),
        ({"network": ("bridge", "none")}, ["/three", "/rec-two", "/rec-one"]),
        ({"expose": ("70-90/tcp",)}, []),  # as dockerd: the ports of those that run
        ({"publish": ("80",)}, []),
        ({"volume": ("/data",)}, []),
        ({"health": ("none",)}, ["/three", "/rec-two", "/rec-one"]),
        ({"health": ("healthy",)}, []),
        ({"isolation": ("default",)}, ["/three", "/rec-two", "/rec-one"]),
        ({"is-task": ("true", "1", "x")}, []),
        ({"is-task": ("false",)}, ["/three", "/rec-two", "/rec-one"]),
        ({"name": ()}, ["/three", "/rec-two", "/rec-one"]),
    ],
    ids=str,
)
def test_a_filter_chooses(engine, filters, expected):
    assert names(engine, all=True, filters=filters) == expected


def test_a_filter_by_id_takes_a_beginning_that_no_other_has(engine):
    ids = [container.id for container in engine.containers.all()]
    for wanted in (ids[0], ids[0][:20]):
        assert names(engine, all=True, filters={"id": (wanted, "nope")}) == ["/three"]
    for wrong in ("", ids[0][1:20], f"^{ids[0]}$", ids[0] + "0"):
        assert names(engine, all=True, filters={"id": (wrong,)}) == []
    made = [create(engine, None, {"Image": "busybox"}, None)[0].id for _ in range(17)]
    first = next(digit for digit in "0123456789abcdef" if sum(each[0] == digit for each in made) > 1)
    assert names(engine, all=True, filters={"id": (first,)}) == []


def test_a_filter_by_annotation_wants_all_of_them(engine):
    create(engine, "noted", {"Image": "busybox", "HostConfig": {"Annotations": {"a": "b", "c": ""}}}, None)
    for values, found in ((("a", "c="), ["/noted"]), (("a=b",), ["/noted"]), (("a", "d"), []), (("a=c",), [])):
        assert names(engine, all=True, filters={"annotation": values}) == found


def test_asking_for_a_status_shows_those_that_do_not_run(engine):
    assert names(engine, filters={"status": ("exited",)}) == ["/rec-two"]
    assert names(engine, filters={"since": ("rec-one",)}) == ["/three"]


@pytest.mark.parametrize(
    ("filters", "text"),
    [
        ({"nope": ("x",)}, "invalid filter 'nope'"),
        ({"status": ("weird",)}, recorded.answer(BAD_STATUS)["message"]),
        ({"exited": ("x",)}, "invalid filter 'exited=x': strconv.Atoi: parsing \"x\": invalid syntax"),
        ({"is-task": ("x",)}, "invalid filter 'is-task=[x]'"),
        ({"is-task": ("true", "0")}, "invalid filter 'is-task=[true 0]'"),
        ({"is-task": ("True",)}, "invalid filter 'is-task=[True]'"),
        ({"expose": ("90-80",)}, "error while looking up for expose 90-80: invalid port range: 90-80"),
        (
            {"publish": ("80-x/udp",)},
            "error while looking up for publish 80-x/udp: invalid end port 'x': invalid syntax",
        ),
        (
            {"publish": ("65536",)},
            "error while looking up for publish 65536: invalid start port '65536': value out of range",
        ),
    ],
)
def test_an_impossible_filter_is_refused(engine, filters, text):
    with pytest.raises(Invalid) as caught:
        list_containers(engine, AskedListing(filters=filters))
    assert str(caught.value) == text


def test_an_unknown_container_as_a_border_is_not_found(engine):
    with pytest.raises(NotFound, match="No such container: nope"):
        list_containers(engine, AskedListing(filters={"before": ("nope",)}))


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (State(), "Created"),
        (State("running", started_ns=SECOND), "Up 4 minutes"),
        (State("paused", started_ns=SECOND), "Up 4 minutes (Paused)"),
        (State("exited", exit_code=137, finished_ns=200 * SECOND), "Exited (137) 49 seconds ago"),
        (State("restarting", exit_code=1, finished_ns=249 * SECOND), "Restarting (1) Less than a second ago"),
        (State("removing"), "Removal In Progress"),
        (State("dead"), "Dead"),
    ],
)
def test_the_state_in_words(state, text):
    assert status_text(state, 249 * SECOND + 5) == text


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"name": ("^/?(rec-)?one$",)}, ["/rec-one"]),  # as k3d asks
        ({"name": ("^/three$",)}, ["/three"]),
        ({"name": ("^three$", "ec-t")}, ["/three", "/rec-two"]),
        ({"name": ("(?i)^REC-\\pL{3}$",)}, ["/rec-two", "/rec-one"]),
        ({"name": ("rec-(",)}, []),  # no expression, and no name: in dockerd's eyes no fault
        ({"name": (r"(t)\1", "one")}, ["/rec-one"]),
        ({"name": ("x" * 300,)}, []),
    ],
)
def test_filters_take_the_expressions_of_go(engine, filters, found):
    assert names(engine, all=True, filters=filters) == found


def test_an_expression_that_python_never_ends_with_is_quick(engine):
    engine.containers.find("three").name = "a" * 100_000
    begun = time.process_time()
    assert names(engine, filters={"name": ("(a+)+b", "(a|a)*b", "a*a*a*a*b")}) == []
    assert time.process_time() - begun < 2
