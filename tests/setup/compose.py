"""docker compose v2 and buildx, which the set-up builds.

Compose has a version of buildx in it, which is the one that is built: they share most of their modules.
"""

from pathlib import Path

from tests.setup.golang import Programs

VERSION = "v2.40.3"
MODULE = "github.com/docker/compose/v2"
BUILDX_MODULE, BUILDX_VERSION = "github.com/docker/buildx", "v0.29.1"  # as this compose requires it
BUILDX = f"{BUILDX_MODULE}/cmd/buildx"
PROGRAMS = Programs(
    f"compose-{VERSION}/cli-plugins",  # a directory of plugins, as the docker CLI looks for them
    ("docker-compose", "docker-buildx"),
    (
        ("mod", "init", "build"),  # a module of its own: `go install` takes none whose go.mod excludes others
        ("get", f"{MODULE}/cmd@{VERSION}"),
        ("build", "-o", "docker-compose", "-ldflags", f"-s -w -X {MODULE}/internal.Version={VERSION}", f"{MODULE}/cmd"),
        ("get", f"{BUILDX}@{BUILDX_VERSION}"),
        (
            "build",
            "-o",
            "docker-buildx",
            "-ldflags",
            f"-s -w -X {BUILDX_MODULE}/version.Version={BUILDX_VERSION}",
            BUILDX,
        ),
    ),
    (1, 24),
)


def place(cache: Path) -> Path:
    """Where compose is."""
    return PROGRAMS.place(cache, "docker-compose")


def buildx(cache: Path) -> Path:
    """Where buildx is, beside it."""
    return PROGRAMS.place(cache, "docker-buildx")


def complete(cache: Path) -> bool:
    """Whether both are there."""
    return PROGRAMS.complete(cache)


def unable() -> str:
    """Why this machine cannot build them; nothing when it can."""
    return PROGRAMS.unable()
