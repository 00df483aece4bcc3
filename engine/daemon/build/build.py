"""POST /build from the request's body to the tagged image: context, stages, names, and the lines of the answer.

Runs on the request's thread, from the first byte of the upload to the last name of the image. An error before the first
line of the answer is a plain HTTP error, as with dockerd. A later error is the answer's last line.
"""

from collections.abc import Callable

from engine.daemon.build import building
from engine.daemon.build.cache import Cache
from engine.daemon.build.context import Source, opened
from engine.daemon.build.options import Options
from engine.daemon.build.output import Output, short
from engine.daemon.build.state import Maker
from engine.daemon.images.image import Image
from engine.daemon.jsontext import Object
from engine.daemon.parts import ContainerParts
from engine.errors import EngineError


def build(
    engine: ContainerParts,
    options: Options,
    body: Source,
    progress: Callable[[Object], None],
    watch: Callable[[int], object],
    check: Callable[[], None],
    gone: Callable[[], bool],
) -> Image:
    """Build the image, give it the names that the client asks for, and report both to the client.

    progress: takes the answer's lines
    watch: sleeps until a descriptor is readable, and raises when the client is gone
    check: raises when the client is gone; gone: returns whether the client is gone
    """
    output = Output(progress, options.quiet, options.shows_ids)
    told = output.downloading(options.remote, "Downloading context")
    with opened(engine.settings.data_root, body, options.remote, options.dockerfile, told) as context:
        dockerfile, plan, arguments = building.prepare(context.dockerfile, context.name, options)
        cache = Cache(engine, options.no_cache, options.cache_from)
        try:
            with Maker(engine) as maker:
                work = building.Build(
                    engine, options, context, output, watch, check, gone, maker, cache, dockerfile, plan, arguments
                )
                _warn(output, dockerfile.warnings)
                image = work.run()
                maker.settle()
                _finish(engine, options, output, image, arguments.unused())
        except EngineError:
            output.failed()
            raise
        finally:
            cache.close()
    return image


def _warn(output: Output, warnings: tuple[str, ...]) -> None:
    """Report what should be corrected in the Dockerfile, in the form in which a command's errors are shown."""
    last = ("Empty continuation lines will become errors in a future release.",) if warnings else ()
    for text in (*warnings, *last):
        output.command(f"[WARNING]: {text}\n".encode(), True)


def _finish(engine: ContainerParts, options: Options, output: Output, image: Image, unused: list[str]) -> None:
    if unused:
        output.text(f"[Warning] One or more build-args [{' '.join(unused)}] were not consumed\n")
    output.text(f"Successfully built {short(image.id)}\n")
    for reference in options.tags:
        engine.images.tag(image, reference)
        output.text(f"Successfully tagged {reference.familiar}\n")
    output.result(image.id)
