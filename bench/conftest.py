"""The benchmarks' pytest plugin: options, order of cases and engines, fixtures for running engines, and the record of
figures.

Cases run in the table's order, and within a case all engines run one after the other, so that their ratios are of the
same time. An engine is started when it is first needed, and stays, idle, until the end of the run.
"""

import datetime
import os
import platform
import shutil
import statistics
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path

import pytest

from bench import cases, direct, image, large, peers, results
from engine.kernel import placement
from tests.__main__ import CACHE

FIGURES = pytest.StashKey[results.Results]()
CELL_SECONDS = 3
FEWEST = 3


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; `python3 -m bench` has the same ones and passes them on."""
    group = parser.getgroup("bench")
    group.addoption("--cases", default="", help="cases by the beginning of their names, or all")
    group.addoption("--engines", default="", help="engines and tools, by name; all that are found when not given")
    group.addoption("--repeats", type=int, default=100, help="how often a flow is timed at the most")
    group.addoption("--megabytes", type=int, default=128, help="size of the logs and streams")
    group.addoption("--figures", type=Path, help="the file that takes the figures as JSON")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker and start the list of figures."""
    config.addinivalue_line("markers", "case(*keys): the rows of the table that this benchmark fills")
    wanted = config.getoption("--engines")
    known = [*peers.BY_NAME, *direct.BY_PROGRAM]
    for name in filter(None, wanted.split(",")):
        if name not in known:
            raise pytest.UsageError(f"no such engine: {name} (there are {', '.join(known)})")
    try:
        cases.chosen(config.getoption("--cases"))
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error
    date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    config.stash[FIGURES] = results.Results(date, _machine())


def _machine() -> dict[str, str]:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return {
        "processors": f"{os.cpu_count()} processors",
        "memory": f"{memory:.0f} GiB",
        "kernel": f"Linux {platform.release()} {platform.machine()}",
        "python": f"Python {platform.python_version()}",
    }


def _chosen(config: pytest.Config, name: str) -> bool:
    names = config.getoption("--engines")
    return not names or name in names.split(",")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a benchmark for every wanted and installed engine (`peer`) or tool (`tool`)."""
    if "peer" in metafunc.fixturenames:
        found = [peer for peer in peers.PEERS if _chosen(metafunc.config, peer.name) and not peer.missing]
        metafunc.parametrize("peer", found, ids=[peer.name for peer in found])
    if "tool" in metafunc.fixturenames:
        tools = [tool for tool in direct.found() if _chosen(metafunc.config, tool.program)]
        metafunc.parametrize("tool", tools, ids=[tool.program for tool in tools])


def _cases(item: pytest.Item) -> tuple[str, ...]:
    marker = item.get_closest_marker("case")
    return marker.args if marker else ()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the wanted cases, in the table's order. A case's floors run just before ours, since its goal
    is their ratio.
    """
    order = {key: number for number, key in enumerate((*cases.BY_KEY, *cases.GROWTH_BY_KEY))}
    wanted = set(cases.chosen(config.getoption("--cases")))
    ours = [item for item in items if item.path.parent == Path(__file__).parent]
    # pytest makes one skipped item of a benchmark for which no engine is found; there is no need to report it.
    asked = [item for item in ours if wanted.intersection(_cases(item)) and "NOTSET" not in item.name]
    items[:] = [item for item in items if item not in ours or item in asked]
    items.sort(key=lambda item: (min((order[key] for key in _cases(item)), default=0), _asks_an_engine(item)))


def _asks_an_engine(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and "peer" in item.fixturenames


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Record each failure with its reason, so that no cell of the table is missing without one."""
    report = yield
    if report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        text = crash.message if crash is not None else report.longreprtext
        name = item.callspec.id if hasattr(item, "callspec") else item.name
        failures = item.config.stash[FIGURES].failures
        failures.setdefault(f"{', '.join(_cases(item))} {name}", text.splitlines()[0] if text else report.when)
    return report


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Print no dots: the figures show the progress."""
    ours = report.nodeid.startswith("bench/") and report.passed
    return (report.outcome if report.when == "call" else "", "", "") if ours else None


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the figures to the file that `--figures` names."""
    path = session.config.getoption("--figures")
    if path is not None:
        session.config.stash[FIGURES].write(path)


@pytest.fixture(scope="session")
def workshop() -> Iterator[Path]:
    """A directory for the whole run, on a disk and not in memory, with the image's files and its tar."""
    directory = Path(tempfile.mkdtemp(prefix="bench-", dir="/var/tmp"))
    try:
        image.make(directory)
        yield directory
    finally:
        shutil.rmtree(directory)


@pytest.fixture(scope="session")
def apart(workshop: Path) -> Path:
    """A directory whose directories the file system puts far from each other, as the engine has it for its layers.

    Without it, ext4 without a journal takes for a file several times as long where others were removed just before.
    """
    directory = workshop / "apart"
    directory.mkdir()
    placement.spread(str(directory))
    return directory


@pytest.fixture(scope="session", name="large")
def large_image(workshop: Path) -> large.Large:
    """The large image (see `large`), shared by all cases that need one; no case may change its files."""
    return large.Large(CACHE, workshop / "large")


@pytest.fixture(scope="session")
def new_daemon(workshop: Path, pytestconfig: pytest.Config) -> peers.NewDaemon:
    """A function that starts a new engine; its caller must close the engine."""
    started = iter(range(1, 1000))

    def start(peer: peers.Peer) -> peers.Daemon:
        daemon = peers.Daemon(peer, workshop / f"{peer.name}{next(started)}")
        pytestconfig.stash[FIGURES].engines[peer.name] = daemon.version
        os.sync()  # earlier writes are not to slow this engine down
        return daemon

    return start


@pytest.fixture(scope="session")
def daemons(new_daemon: peers.NewDaemon) -> Iterator[dict[str, peers.Daemon]]:
    """The running engines, by name."""
    running: dict[str, peers.Daemon] = {}
    try:
        yield running
    finally:
        for daemon in running.values():
            daemon.close()


@pytest.fixture
def daemon(
    peer: peers.Peer,
    daemons: dict[str, peers.Daemon],
    new_daemon: peers.NewDaemon,
    workshop: Path,
) -> peers.Daemon:
    """The running engine of this benchmark, which has the image."""
    if peer.name not in daemons:
        daemons[peer.name] = new_daemon(peer)
        daemons[peer.name].give_image(workshop / "rootfs.tar")
    os.sync()  # earlier writes are not to slow this benchmark down
    return daemons[peer.name]


@pytest.fixture
def lone_daemon(
    peer: peers.Peer,
    daemons: dict[str, peers.Daemon],
    new_daemon: peers.NewDaemon,
) -> Iterator[peers.Daemon]:
    """A new engine while no other of its kind runs: two would share pages."""
    if peer.name in daemons:
        daemons.pop(peer.name).close()
    daemon = new_daemon(peer)
    try:
        yield daemon
    finally:
        daemon.close()


@pytest.fixture
def record(pytestconfig: pytest.Config) -> results.Record:
    """A function that keeps the samples of one cell, given in the case's unit, and prints their median."""
    kept = pytestconfig.stash[FIGURES]
    terminal = pytestconfig.pluginmanager.get_plugin("terminalreporter")

    def record(case: str, engine: str, samples: Sequence[float], **detail: float) -> None:
        value = statistics.median(samples)
        low, _, high = statistics.quantiles(samples, n=4) if len(samples) > 1 else (value,) * 3
        kept.figures.append(results.Figure(case, engine, value, low, high, len(samples), detail))
        if engine not in peers.BY_NAME:
            kept.references.setdefault(engine, "")
        if terminal is not None:
            terminal.ensure_newline()
            terminal.write_line(f"{case:18}{engine:18}{value:12.5g} {cases.BY_KEY[case].unit}")

    return record


@pytest.fixture
def grown(pytestconfig: pytest.Config) -> results.Grown:
    """A function that keeps one cell of the table of growth, given in the row's unit, and prints it."""
    kept = pytestconfig.stash[FIGURES].growth
    terminal = pytestconfig.pluginmanager.get_plugin("terminalreporter")

    def grown(row: str, size: int, value: float) -> None:
        kept.setdefault(row, {})[str(size)] = value
        if terminal is not None:
            terminal.ensure_newline()
            terminal.write_line(f"{row:28}{size:8}{value:12.5g} {cases.GROWTH_BY_KEY[row].unit}")

    return grown


@pytest.fixture
def rounds(pytestconfig: pytest.Config) -> Callable[[float], int]:
    """A function that tells how often to repeat something that takes so many seconds."""
    most: int = pytestconfig.getoption("--repeats")
    return lambda seconds: max(FEWEST, min(most, int(CELL_SECONDS / seconds)))


@pytest.fixture
def megabytes(pytestconfig: pytest.Config) -> int:
    """The size of logs and streams in millions of bytes."""
    chosen: int = pytestconfig.getoption("--megabytes")
    return chosen
