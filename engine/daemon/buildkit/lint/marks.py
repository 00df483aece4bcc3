"""The mark that a rule sets at an instruction of a Dockerfile.

Pure values.
"""

from engine.daemon.dockerfile.statements import Instruction
from engine.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Mark:
    """detail: what is to be told; line: of the file, where it is not the whole instruction"""

    instruction: Instruction
    detail: str
    line: int = 0
