"""Finding the image that a FROM or a --from names: in the image store, or by a pull from the image's registry.

Runs on the thread that builds.
"""

from collections.abc import Callable

from engine.daemon.builder.dialect import CLASSIC, Dialect
from engine.daemon.builder.options import Options
from engine.daemon.images.image import Image
from engine.daemon.images.reference import Reference
from engine.daemon.jsontext import Object
from engine.daemon.parts import ContainerParts
from engine.errors import NotFound
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # most builds find their base images here
    from engine.daemon.images.verbs import pull
else:
    pull = late("engine.daemon.images.verbs.pull")


Fresh = dict[tuple[str, str], Image]
"""The images that a build has pulled, by name and platform: they are not pulled again in it."""


def find(
    engine: ContainerParts,
    name: str,
    platform: str,
    options: Options,
    progress: Callable[[Object], None],
    fresh: Fresh,
    gone: Callable[[], bool],
    dialect: Dialect = CLASSIC,
) -> Image:
    """The image of that name for the platform (empty: any), pulled where it is missing or the client asks for a pull.

    gone: returns whether the client has hung up, which ends a pull. Raises Invalid for a name that is no reference,
    NotFound for an image id that is not here, and what a pull raises.
    """
    if (known := fresh.get((name, platform))) is not None:
        return known
    if not options.pull:
        try:
            return engine.images.find(name, platform or None)
        except NotFound:
            lone = _lone(engine, name) if dialect.lone_platforms else None
            if lone is not None:
                return lone
            if _is_id(name):
                raise
    reference = Reference.parse(name)
    if dialect.hidden_bases and reference.digest:
        base = engine.images.base(reference.digest, platform)
        if base is not None:
            return base
    fresh[name, platform] = image = pull.pull(
        *(engine.images, name, "", platform or None, options.credentials(reference.domain), progress, gone),
        lone=dialect.lone_platforms,
        hidden=dialect.hidden_bases,
    )
    return image


def _lone(engine: ContainerParts, name: str) -> Image | None:
    """The image of that name if it is here and for one platform alone, whichever that is."""
    try:
        found = engine.images.find(name, None)
    except NotFound:
        return None
    return found if found.id == found.manifest else None


def _is_id(name: str) -> bool:
    return name.startswith("sha256:")
