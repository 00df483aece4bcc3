"""The whole life of a container of `echo hello`, which several benchmarks time: create, start, wait, logs, delete."""

import statistics
import time

from bench import client, image

STEPS = ("create", "start", "wait", "logs", "delete")
WARMUP = 3
HELLO = b"\x01\0\0\0\0\0\0\x06hello\n"


class Flow:
    """The whole life of a container over one connection; keeps the seconds of each step."""

    def __init__(self, connection: client.Connection, network: str) -> None:
        self.connection = connection
        self.network = network
        self.steps: dict[str, list[float]] = {step: [] for step in STEPS}

    def __call__(self) -> None:
        """Run it once and check the output."""
        times = [time.perf_counter()]
        container = client.create(self.connection, image.NAME, ["echo", "hello"], self.network)
        times.append(time.perf_counter())
        client.start(self.connection, container)
        times.append(time.perf_counter())
        status = client.wait(self.connection, container)
        times.append(time.perf_counter())
        output = client.logs(self.connection, container)
        times.append(time.perf_counter())
        client.remove(self.connection, container)
        times.append(time.perf_counter())
        assert (status, output) == (0, HELLO)
        for step, first, last in zip(STEPS, times, times[1:], strict=False):
            self.steps[step].append(last - first)

    def medians(self, count: int) -> dict[str, float]:
        """The median of each step's last `count` samples, in milliseconds."""
        return {step: statistics.median(times[-count:]) * 1e3 for step, times in self.steps.items()}
