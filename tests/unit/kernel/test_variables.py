"""What is forgotten of the environment that a process was started with."""

import os
import subprocess
import sys

# Prints whether the secret is anywhere in this process's memory that can be written to, and what is left.
_SCRIPT = """
import os, sys
from engine.kernel import variables
def found():
    # Another process looks, in whose own memory the secret is too.
    pid, end = os.getpid(), os.pipe()
    if os.fork() == 0:
        seen = []
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb") as memory:
            for line in maps:
                span, rights, *_, name = line.split(maxsplit=5) if len(line.split()) > 5 else (*line.split(), "")
                if "w" in rights and "r" in rights:
                    start, stop = (int(each, 16) for each in span.split("-"))
                    memory.seek(start)
                    if b"-".join((b"hush", b"0123456789")) in memory.read(stop - start):
                        seen.append(name.strip() or "memory")
        print(sorted(set(seen)), flush=True)
        os._exit(0)
    os.wait()
found()
variables.forget_copies()
found()
variables.forget()
found()
print(sorted(os.environ), os.environ.get("PATH"))
"""


def test_nothing_of_a_variable_is_left_in_memory() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.getcwd(), "PASSWORD": "hush-0123456789", "X": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    before, copies, after, left = done.stdout.splitlines()
    assert "[stack]" in before and copies == "['[stack]']" and after == "[]"
    assert left == f"['PATH'] {os.environ['PATH']}"
