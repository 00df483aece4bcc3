"""A daemon under test that dies at a step of its work which the test chooses, and is started again.

Run by the test process; the daemon's own side is `mortal`.
"""

import time
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
        steps.unlink(missing_ok=True)
        (self.root / "new").write_text(str(number))
        (self.root / "new").rename(orders)
        try:
            verb()
        except (OSError, EOFError):
            self.process.wait(5)  # else it was another failure than the one that was asked for
        finally:
            orders.unlink(missing_ok=True)
        time.sleep(0.01)  # it may be about to die of a step that it makes after its answer
        if self.process.poll() is None:
            return ""
        self.start()
        return steps.read_text().splitlines()[-1]
