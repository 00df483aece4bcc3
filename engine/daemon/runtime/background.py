"""Work that a call or an event begins and nobody waits for: each piece in a thread of its own."""

import logging
import threading
from collections.abc import Callable

from engine.errors import EngineError

log = logging.getLogger(__name__)


def later(work: Callable[..., object], *arguments: object) -> None:
    """Run `work` in the background; a failure on purpose is logged, there is nobody to tell."""

    def run() -> None:
        try:
            work(*arguments)
        except EngineError as error:
            log.warning("in the background: %s", error)

    threading.Thread(target=run, name=work.__name__, daemon=True).start()
