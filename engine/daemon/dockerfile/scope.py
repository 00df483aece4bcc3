"""The build arguments that no Dockerfile has to make: the proxies', and those that say the platforms.

Pure. Which step sees which argument is for the build.
"""

PREDEFINED = frozenset(
    name
    for upper in ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY")
    for name in (upper, upper.lower())
)
"""Taken from the build's arguments without an ARG, seen by RUN, and no part of history or cache."""


def platform_arguments(build: str, target: str) -> dict[str, str]:
    """TARGETPLATFORM, TARGETOS, ... and BUILDPLATFORM, ... of two platforms ("linux/arm/v7")."""
    values: dict[str, str] = {}
    for prefix, text in (("BUILD", build), ("TARGET", target)):
        os, architecture, variant = (text.split("/") + ["", ""])[:3]
        values |= {
            f"{prefix}PLATFORM": text,
            f"{prefix}OS": os,
            f"{prefix}ARCH": architecture,
            f"{prefix}VARIANT": variant,
        }
    return values
