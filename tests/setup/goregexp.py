"""A program that asks Go's package regexp (`regexps/main.go`), which the set-up builds."""

import hashlib
from pathlib import Path

from tests.setup.golang import Programs

SOURCE = Path(__file__).parent / "regexps" / "main.go"
PROGRAMS = Programs(
    f"regexps-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:8]}",
    ("regexps",),
    (("mod", "init", "build"), ("build", "-o", "regexps", "-ldflags", "-s -w", ".")),
    (1, 25),  # the names of Unicode's categories
    (SOURCE,),
)
