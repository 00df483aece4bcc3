"""Puts the proxies of the daemon's settings into the variables of its environment, as dockerd does.

Runs once in the daemon's main thread, before other threads exist. From then on the variables alone say which proxy a
request takes: those of the daemon itself, and those of programs that it runs, such as git.
"""

import logging
from collections.abc import MutableMapping

from engine import redact
from engine.settings.every import Settings

log = logging.getLogger(__name__)


def use(settings: Settings, environ: MutableMapping[str, str]) -> None:
    """Set HTTP_PROXY, HTTPS_PROXY and NO_PROXY, in both cases, where the settings name a value."""
    proxies = {"HTTP_PROXY": settings.http_proxy, "HTTPS_PROXY": settings.https_proxy, "NO_PROXY": settings.no_proxy}
    for capitals, value in proxies.items():
        for name in (capitals, capitals.lower()) if value else ():
            before = environ.get(name, "")
            if before not in ("", value):
                log.warning(
                    "overriding existing proxy variable with value from configuration: %s was %s and is %s",
                    name,
                    redact.proxy(before),
                    redact.proxy(value),
                )
            environ[name] = value
