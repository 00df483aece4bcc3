"""What a test gives the daemon's functions: an engine of a few parts, and true records with a few fields of its own."""

from engine.daemon.containers import config as configs
from engine.daemon.containers.record import Container
from engine.daemon.images.image import Image
from engine.daemon.latepart import LatePart
from engine.daemon.main import Engine
from engine.daemon.runtime.events import Event, Events
from engine.dataclass import fields, replace
from engine.settings.every import Settings, from_arguments


class Parts(Engine):
    """An engine of those parts alone that a test gives it.

    Its fields are the true engine's, and so those of the Protocols in `engine.daemon.parts`. A part is the true one, or
    a stand-in with the methods that are called. AttributeError names a part that is not there: one that was not given
    when it is asked for, and one that no engine has when it is given.
    """

    def __init__(self, **given: object) -> None:
        for name, part in given.items():
            if type(self) is Parts and name not in KNOWN:
                raise AttributeError(f"no engine has the part {name}")
            setattr(self, name, part)

    def __getattribute__(self, name: str) -> object:
        if name in KNOWN and name not in vars(self):
            raise AttributeError(f"the part {name} was not given")
        return super().__getattribute__(name)


KNOWN = {field.name for field in fields(Engine)} | {
    name for name, each in vars(Engine).items() if isinstance(each, LatePart)
}


def settings(**told: object) -> Settings:
    """Those of a daemon that was told nothing but this."""
    return replace(from_arguments(["--config-file", "/dev/null"], {}, 0), **told)


def container(config: dict | None = None, host_config: dict | None = None, **known: object) -> Container:
    """A container that was created, or is as `known` says.

    config, host_config: what is other than in an ordinary container, kept as it is
    """
    usual = {
        "id": "c" * 64,
        "name": "one",
        "created_ns": 1,
        "image": "busybox",
        "image_id": "",
        "config": {**configs.container_config({}), **(config or {})},
        "host_config": {**configs.host_config({}), **(host_config or {})},
        "networking": {},
        "path": "x",
        "args": [],
        "layers": (),
    }
    return Container(**{**usual, **known})


def image(**known: object) -> Image:
    """An image with nothing in it and without a name, or as `known` says."""
    usual = {
        "id": "sha256:" + "1" * 64,
        "descriptor": {},
        "manifest": "",
        "config": {},
        "layers": (),
        "layer_sizes": (),
        "content_size": 0,
        "created": "",
        "parent": "",
        "names": (),
        "repo_tags": (),
        "repo_digests": (),
        "tagged_ns": 0,
    }
    return Image(**{**usual, **known})


def told(events: Events) -> list[Event]:
    """All that was published and is still kept, oldest first."""
    past, subscription = events.subscribe()
    subscription.close()
    return past
