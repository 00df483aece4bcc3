"""A daemon under test that dies at a step of its work which the test chooses, and is started again.

Run by the test process; the daemon's own side is `mortal`.
"""

import contextlib
import fcntl
from collections.abc import Callable

from tests.harness import mortal
from tests.harness.daemon import Daemon


class Doomed(Daemon):
    """A daemon that counts its steps while it has orders to die at one of them."""

    program = "tests.harness.mortal"

    @property
    def environment(self) -> dict[str, str]:
        """Also its clients', who do not mind."""
        return {**super().environment, mortal.ORDERS: str(self.root / "orders")}

    def dies(self, number: int, verb: Callable[[], object]) -> str:
        """Do something, in which the daemon is killed at the step of that number, from 0; then start it again.

        What it was about to do; empty when `verb` was done before it came to that many steps.
        """
        orders, steps = self.root / "orders", self.root / "orders.steps"
        steps.write_text("")
        (self.root / "new").write_text(str(number))
        (self.root / "new").rename(orders)
        with open(orders) as given:
            with contextlib.suppress(OSError, EOFError):  # whether it has died is seen below
                verb()
            orders.unlink()
            fcntl.flock(given, fcntl.LOCK_EX)  # steps that it makes after its answer: those under way are through
        made = steps.read_text().splitlines()
        if len(made) <= number:
            return ""
        self.process.wait(30)
        self.start()
        return made[-1]
