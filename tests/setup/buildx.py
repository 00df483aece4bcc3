"""buildx of the day, which the set-up builds beside the older one that compose requires.

It decides which sources a build may use: with policies of its user (`Dockerfile.rego`), and asked by the daemon.
"""

from pathlib import Path

from tests.setup.golang import Programs

VERSION = "v0.38.2"
MODULE = "github.com/docker/buildx"
PROGRAMS = Programs(
    f"buildx-{VERSION}",
    ("docker-buildx",),
    (
        ("mod", "init", "build"),
        ("get", f"{MODULE}/cmd/buildx@{VERSION}"),
        (
            "build",
            "-o",
            "docker-buildx",
            "-ldflags",
            f"-s -w -X {MODULE}/version.Version={VERSION}",
            f"{MODULE}/cmd/buildx",
        ),
    ),
    (1, 26),
)


def place(cache: Path) -> Path:
    """Where it is."""
    return PROGRAMS.place(cache, "docker-buildx")
