"""One row of the table of published escapes, and the words that many rows share.

Pure.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One published flaw.

    number: CVE, or GHSA where it has none; component: whose flaw it was; flaw: in one sentence; and exactly one of
    test, the node id below tests/ of what tries it, and why, the reason why it cannot apply
    """

    number: str
    component: str
    flaw: str
    test: str = ""
    why: str = ""

    @property
    def verdict(self) -> str:
        """What the table shows."""
        return f"tried and refused: `{self.test}`" if self.test else f"not applicable: {self.why}"


IMAGE = "sandbox/test_image_attacks.py::"
STEP = "sandbox/test_build_step_attacks.py::"
BUILD = "sandbox/test_build_attacks.py::"
RUN = "sandbox/test_run_attacks.py::"
EXEC = "sandbox/test_exec_attacks.py::"
MOUNT = "sandbox/test_mount_attacks.py::"
COPY = "sandbox/test_copy_attacks.py::"
WALL = "sandbox/test_isolation_attacks.py::"
NETWORK = "sandbox/test_network_attacks.py::"
USERS = "sandbox/test_host_users.py::"
FRONTEND = "sandbox/test_frontend_attacks.py::"
GIT = "unit/builder/git/"
REGISTRY = "sandbox/test_registry_attacks.py::"
LOAD = "api/test_hostile_archives.py::"
PULL = "unit/images/verbs/test_pull.py::"

NO_CHECKPOINTS = "containers are neither checkpointed nor restored"
HTTP2 = "unit/protocols/test_http2.py::"
NO_SWARM = "there is no swarm and no overlay network"
NO_SETUID = "there is no program with the setuid bit"
WINDOWS = "it is of Windows"
NO_LABELS = "an image's labels and annotations are shown and never obeyed"
REMAP = "api/test_userns_remap.py::"
NO_KRUN = "there is no handler that runs containers in virtual machines"
NO_MACHINE = "there is no virtual machine beside the engine"
