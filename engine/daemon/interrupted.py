"""What the daemon does at its start about builds that an earlier daemon did not finish.

Runs in the daemon's main thread before the first client is served. It forgets the images that a loss of power may have
damaged, and has the rest cleaned up in the background (see `recovery`). Nearly always there is nothing to do, so an
idle daemon has loaded only this module.
"""

import os

from engine.daemon.containers import paths
from engine.daemon.parts import ContainerParts
from engine.daemon.runtime.background import later
from engine.daemon.store import buildresults as build_results
from engine.daemon.store import builds as build_table
from engine.daemon.store import images as image_table
from engine.daemon.store.database import Database
from engine.kernel import syscalls
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # most daemons never need it
    from engine.daemon.builder import recovery
else:
    recovery = late("engine.daemon.builder.recovery")


def forget_torn(database: Database) -> None:
    """Forget what builds had not yet on the disk when the power was lost; later sweeps remove its files."""
    with database.reading() as connection:
        torn = build_table.torn(connection, syscalls.boot_id())
        results = build_results.torn(connection, syscalls.boot_id())
    if results:
        with database.transaction(frees=True) as connection:
            build_results.drop(connection, results)
    if torn:
        with database.transaction(durable=True, frees=True) as connection:
            for image in torn:
                image_table.forget_image(connection, image)


def finish(engine: ContainerParts) -> None:
    """Start the clean-up after interrupted builds, if there is anything to clean up."""
    with engine.database.reading() as connection:
        steps, images = build_table.steps(connection), build_table.all_unsettled(connection)
    given = os.listdir(paths.given(engine.settings.exec_root))
    if steps or images or given:
        later(recovery.recover, engine, steps, images, given)
