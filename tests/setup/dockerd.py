"""A current dockerd with its containerd and runc, which `--long dockerd` puts beside this engine.

All three are built from their modules by the machine's Go, once. runc is C in part: it needs gcc and libseccomp's
headers, which the set-up of the long job installs.
"""

from tests.setup.golang import Programs

VERSION = "29.6.2"
DOCKERD = Programs(
    "dockerd-v2.0.0-beta.24",
    ("dockerd", "docker-proxy"),
    (
        ("mod", "init", "build"),
        ("get", "github.com/moby/moby/v2/cmd/dockerd@v2.0.0-beta.24"),
        (
            *("build", "-o", "dockerd", "-ldflags"),
            f"-s -w -X github.com/moby/moby/v2/dockerversion.Version={VERSION}",
            "github.com/moby/moby/v2/cmd/dockerd",
        ),
        ("build", "-o", "docker-proxy", "-ldflags", "-s -w", "github.com/moby/moby/v2/cmd/docker-proxy"),
    ),
    (1, 26),
)
CONTAINERD = Programs(
    "containerd-v2.4.2",
    ("containerd", "containerd-shim-runc-v2"),
    (
        ("mod", "init", "build"),
        *(
            ("get", f"github.com/containerd/containerd/v2/cmd/{name}@v2.4.2")
            for name in ("containerd", "containerd-shim-runc-v2")
        ),
        *(
            ("build", "-o", name, "-ldflags", "-s -w", f"github.com/containerd/containerd/v2/cmd/{name}")
            for name in ("containerd", "containerd-shim-runc-v2")
        ),
    ),
    (1, 26),
)
RUNC = Programs(
    "runc-v1.5.3",
    ("runc",),
    (
        ("mod", "init", "build"),
        ("get", "github.com/opencontainers/runc@v1.5.3"),
        ("build", "-o", "runc", "-tags", "seccomp", "-ldflags", "-s -w", "github.com/opencontainers/runc"),
    ),
    (1, 26),
    settings={"CGO_ENABLED": "1"},
)
PARTS = (DOCKERD, CONTAINERD, RUNC)
HEADERS = "libseccomp-dev"
