"""The filters of GET /events, by dockerd's rules."""

import pytest

from engine.daemon.api.eventfilter import compile_filters
from engine.daemon.runtime.events import Event

ID = "7b053736ef4436db423dc1294fdef0a57a0666f4fe2a07f45c008fb2eda24674"
IMAGE = "sha256:3d6c584907b4cca0892ef53f31186796bb6fe1dd07088ec6976f80a12d08a9eb"
START = Event("container", "start", ID, {"image": "busybox:latest", "name": "web", "k": "v", "empty": ""})
PROBE = Event("container", "exec_create: /bin/sh -c true", ID, {"image": "localhost:5000/a/b:1", "name": "web"})
HEALTH = Event("container", "health_status: healthy", ID, {"image": "busybox", "name": "web"})
TAG = Event("image", "tag", IMAGE, {"name": "rec/img:v1"})
PRUNE = Event("container", "prune", "", {"reclaimed": "0"})
NETWORK = Event("network", "connect", "350efc4c", {"container": ID, "name": "rec-net", "type": "bridge"})
ALL = (START, PROBE, HEALTH, TAG, PRUNE, NETWORK)


@pytest.mark.parametrize(
    ("filters", "passed"),
    [
        ({}, ALL),
        ({"event": ()}, ALL),
        ({"type": ("image",)}, (TAG,)),
        ({"type": ("image", "network")}, (TAG, NETWORK)),
        ({"type": ("contain",)}, ()),
        ({"event": ("start",)}, (START,)),
        ({"event": ("sta",)}, ()),
        ({"event": ("exec_create",)}, (PROBE,)),
        ({"event": ("exec_create: /bin/sh -c true",)}, (PROBE,)),
        ({"event": ("exec_start",)}, ()),
        ({"event": ("health_status",)}, (HEALTH,)),
        ({"event": ("health_status: healthy",)}, (HEALTH,)),
        ({"event": ("health_status: unhealthy",)}, ()),
        ({"event": ("health_status", "sta")}, (START, HEALTH)),
        ({"container": (ID,)}, (START, PROBE, HEALTH)),
        ({"container": (ID[:4],)}, (START, PROBE, HEALTH)),
        ({"container": ("web",)}, (START, PROBE, HEALTH)),
        ({"container": ("we",)}, (START, PROBE, HEALTH)),
        ({"container": ("other",)}, ()),
        ({"network": ("rec",)}, (TAG, NETWORK)),
        ({"volume": ("web",)}, (START, PROBE, HEALTH)),
        ({"daemon": ("host",)}, ()),
        ({"node": ("n",)}, ()),
        ({"image": ("busybox",)}, (START, HEALTH)),
        ({"image": ("busybox:latest",)}, (START,)),
        ({"image": ("localhost:5000/a/b",)}, (PROBE,)),
        ({"image": ("rec/img",)}, (TAG,)),
        ({"image": (IMAGE,)}, (TAG,)),
        ({"image": ("busy",)}, ()),
        ({"label": ("k",)}, (START,)),
        ({"label": ("k=v",)}, (START,)),
        ({"label": ("k=",)}, ()),
        ({"label": ("empty=",)}, (START,)),
        ({"label": ("k=v", "missing")}, ()),
        ({"scope": ("local",)}, ALL),
        ({"scope": ("swarm",)}, ()),
        ({"type": ("container",), "event": ("start", "tag")}, (START,)),
        ({"nobody-knows": ("x",)}, ALL),
    ],
)
def test_events_pass_as_dockerd_lets_them(filters, passed):
    """Each filter by itself, and some together."""
    matches = compile_filters(filters)
    assert tuple(event for event in ALL if matches(event)) == passed
