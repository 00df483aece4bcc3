"""The predefined build arguments: the proxy variables, and TARGETPLATFORM, BUILDPLATFORM and their parts.

Pure. The package `build` decides which step sees which argument.
"""

from urllib.parse import unquote

PREDEFINED = frozenset(
    name
    for upper in ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY")
    for name in (upper, upper.lower())
)
"""Taken from the build's arguments without an ARG, seen by RUN, and no part of history or cache."""


def platform_arguments(build: str, target: str, stage: str = "") -> dict[str, str]:
    """TARGETPLATFORM, TARGETOS, ... and BUILDPLATFORM, ... of two platforms such as "linux/arm/v7", and TARGETSTAGE.

    stage: the name of the stage that is built, empty where it has none
    """
    values: dict[str, str] = {}
    for prefix, text in (("BUILD", build), ("TARGET", target)):
        system, architecture, variant = (text.split("/") + ["", ""])[:3]
        os, _, more = system.partition("(")
        values |= {
            f"{prefix}PLATFORM": text,
            f"{prefix}OS": os,
            f"{prefix}OSVERSION": unquote(more.rstrip(")").partition("+")[0]),
            f"{prefix}ARCH": architecture,
            f"{prefix}VARIANT": variant,
        }
    return values | {"TARGETSTAGE": stage or "default"}
