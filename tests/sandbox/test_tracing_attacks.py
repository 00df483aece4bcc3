"""What a container that may trace (CAP_SYS_PTRACE) tries on what the engine puts beside it: CVE-2016-9962 again.

Whoever may trace a process has its root, its memory and its descriptors. So nothing of the engine's may be run where
such a container could see it: not the init of a container that joins its PID namespace, not an exec's newborn.
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness import execs
from tests.harness.daemon import Daemon
from tests.harness.listening import until

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("busybox")]

WATCHER = """
touch /watching
while [ ! -e /stop ]; do
  for p in /proc/[0-9]*; do [ -e $p/root@MARKER@ ] && echo "the host's root by $p"; done
done 2>/dev/null
"""
STARTS = 25


def tracing(daemon: Daemon, container: Callable[..., str], script: str, **host_config: object) -> str:
    """A container that may trace and has begun to watch."""
    granted = {"NetworkMode": "none", "CapAdd": ["SYS_PTRACE"], **host_config}
    one = container("sh", "-c", script, HostConfig=granted)
    daemon.begin(one)
    until(lambda: daemon.request("HEAD", f"/containers/{one}/archive?path=/watching").status == 200)
    return one


@pytest.mark.parametrize("beside", [False, True])
def test_the_init_of_who_joins_its_pid_namespace_is_not_traced(
    daemon: Daemon, container: Callable[..., str], tmp_path: Path, beside: bool
) -> None:
    """Until it executes its command it has the host's root. beside: it was joined by the watcher itself before."""
    marker = tmp_path / "marker-of-the-host"
    marker.touch()
    script = WATCHER.replace("@MARKER@", str(marker))
    if beside:
        target = container("sleep", "600")
        daemon.begin(target)
        watcher = tracing(daemon, container, script, PidMode=f"container:{target}")
    else:
        target = watcher = tracing(daemon, container, script)
    for _ in range(STARTS):
        joined = container("true", HostConfig={"NetworkMode": "none", "PidMode": f"container:{target}"})
        daemon.begin(joined)
        daemon.wait(joined)
    assert execs.run(daemon, watcher, "true").code == 0, "it runs on afterwards"
    daemon.put_file(watcher, "stop")
    daemon.wait(watcher)
    assert b"the host" not in daemon.logs(watcher)


def test_who_may_trace_and_is_paused_stays_paused(daemon: Daemon, container: Callable[..., str]) -> None:
    """Though it was to stand still for the start of another as well."""
    watcher = tracing(daemon, container, "touch /watching; while :; do date +%s%N > /time; sleep 0.01; done")
    assert daemon.request("POST", f"/containers/{watcher}/pause").status == 204
    joined = container("sleep", "600", HostConfig={"NetworkMode": "none", "PidMode": f"container:{watcher}"})
    daemon.begin(joined)
    times = set()
    for _ in range(10):
        times.add(daemon.request("GET", f"/containers/{watcher}/archive?path=/time").body)
        time.sleep(0.02)
    assert len(times) == 1
    assert daemon.request("POST", f"/containers/{watcher}/unpause").status == 204


def test_starts_that_wait_for_each_others_tracers_all_end(daemon: Daemon, container: Callable[..., str]) -> None:
    """Several at once, while the one that they join is paused and goes on."""
    watcher = tracing(daemon, container, "touch /watching; exec sleep 600")
    body = {"NetworkMode": "none", "PidMode": f"container:{watcher}", "CapAdd": ["SYS_PTRACE"]}
    joined = [container("sleep", "600", HostConfig=body) for _ in range(8)]
    threads = [threading.Thread(target=daemon.begin, args=(each,)) for each in joined]
    for thread in threads:
        thread.start()
    for _ in range(5):
        daemon.request("POST", f"/containers/{watcher}/pause")
        daemon.request("POST", f"/containers/{watcher}/unpause")
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert all(daemon.inspect(each)["State"]["Running"] for each in joined)
