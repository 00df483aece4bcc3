"""buildctl and buildkitd, BuildKit's own client and daemon, and a program of ours that makes graphs with its library
(`graphs/main.go`).

The set-up builds all, of one version of BuildKit.
"""

import hashlib
from pathlib import Path

from tests.setup.golang import Programs

VERSION = "v0.34.2"
MODULE = "github.com/moby/buildkit"
SOURCE = Path(__file__).parent / "graphs" / "main.go"
PROGRAMS = Programs(
    f"buildctl-{VERSION}-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:8]}",
    ("buildctl", "buildkitd", "graphs"),
    (
        ("mod", "init", "build"),
        ("get", f"{MODULE}@{VERSION}"),
        ("mod", "tidy", "-e"),
        ("build", "-o", "graphs", "-ldflags", "-s -w", "."),
        ("get", f"{MODULE}/cmd/buildctl@{VERSION}"),
        ("build", "-o", "buildctl", "-ldflags", "-s -w", f"{MODULE}/cmd/buildctl"),
        ("get", f"{MODULE}/cmd/buildkitd@{VERSION}"),
        ("build", "-o", "buildkitd", "-ldflags", "-s -w", f"{MODULE}/cmd/buildkitd"),
    ),
    (1, 26),
    (SOURCE,),
)
