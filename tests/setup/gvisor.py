"""gVisor's runsc, an OCI runtime whose containers have a kernel of their own, which the set-up builds."""

from tests.setup.golang import Programs

VERSION = "v0.0.0-20260905035102-160fafc42237"  # of its branch `go`, which has the generated files
MODULE = "gvisor.dev/gvisor"
PROGRAMS = Programs(
    f"runsc-{VERSION.rpartition('-')[2]}",
    ("runsc",),
    (
        ("mod", "init", "build"),
        ("get", f"{MODULE}/runsc@{VERSION}"),
        ("build", "-o", "runsc", "-ldflags", f"-s -w -X {MODULE}/runsc/version.version={VERSION}", f"{MODULE}/runsc"),
    ),
    (1, 26),
)
