"""buildctl and buildkitd, BuildKit's own client and daemon, and a program of ours that makes graphs with its library
(`graphs/main.go`), all of one version.

The set-up builds the client and the graphs. The daemon, which takes some minutes, is built for a long job.
"""

import hashlib
from pathlib import Path

from tests.setup.golang import Programs

VERSION = "v0.34.2"
MODULE = "github.com/moby/buildkit"
SOURCE = Path(__file__).parent / "graphs" / "main.go"
PROGRAMS = Programs(
    f"buildctl-{VERSION}-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:8]}",
    ("buildctl", "graphs"),
    (
        ("mod", "init", "build"),
        ("get", f"{MODULE}@{VERSION}"),
        ("mod", "tidy", "-e"),
        ("build", "-o", "graphs", "-ldflags", "-s -w", "."),
        ("get", f"{MODULE}/cmd/buildctl@{VERSION}"),
        ("build", "-o", "buildctl", "-ldflags", "-s -w", f"{MODULE}/cmd/buildctl"),
    ),
    (1, 26),
    (SOURCE,),
)
DAEMON = Programs(
    f"buildkitd-{VERSION}",
    ("buildkitd",),
    (
        ("mod", "init", "build"),
        ("get", f"{MODULE}@{VERSION}"),
        ("get", f"{MODULE}/cmd/buildkitd@{VERSION}"),
        ("build", "-o", "buildkitd", "-ldflags", "-s -w", f"{MODULE}/cmd/buildkitd"),
    ),
    (1, 26),
)
