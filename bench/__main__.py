"""The command `python3 -m bench` measures this engine and its peers, prints the table, and writes JSON, Markdown and
SVG.

A process of a developer's, run as root, with any Python from 3.11 on. It makes the tests' virtual environment, builds
`_muxer` as the tests do, has pytest run the benchmarks in that environment, and shows their figures. It measures
nothing itself and installs nothing else.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench import cases, direct, drawing, peers, results, table
from tests.__main__ import PROGRAMS, environment, run

HERE = Path(__file__).parent


def parser() -> argparse.ArgumentParser:
    """The command line's options; those that say what to measure are handed to pytest (see `conftest`)."""
    options = argparse.ArgumentParser(prog="python3 -m bench", description=__doc__.split("\n")[0])
    engines = ",".join([*peers.BY_NAME, *direct.BY_PROGRAM])
    options.add_argument(
        "--cases", default="", help=f"which, by the beginning of a name, or all: {','.join(cases.BY_KEY)}"
    )
    options.add_argument("--engines", default="", help=f"which of {engines}; all that are installed when not given")
    options.add_argument("--repeats", type=int, default=100, help="how often a flow is timed at the most (100)")
    options.add_argument("--megabytes", type=int, default=128, help="size of the logs and streams (128)")
    options.add_argument("--output", type=Path, default=results.OUTPUT, help="directory for the files written")
    options.add_argument("--show", type=Path, metavar="JSON", help="measure nothing, show and draw an earlier run")
    options.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    return options


def measure(chosen: argparse.Namespace) -> tuple[int, results.Results | None]:
    """Run the benchmarks; returns pytest's exit status, and the figures when there are any."""
    python = environment()
    # Peers that are not installed may be among what the tests have unpacked.
    os.environ["PATH"] = os.pathsep.join((os.environ.get("PATH", os.defpath), *map(str, PROGRAMS)))
    if shutil.which("gcc"):
        run(python, "-m", "_muxer.build")
    # Compile as an install does, and as any first start does where Python may write: the compiler is not to be
    # measured.
    run(python, "-m", "compileall", "-q", "engine", "_muxer")
    with tempfile.TemporaryDirectory() as directory:
        figures = Path(directory) / "figures.json"
        status = subprocess.run(
            [
                *(python, "-m", "pytest", str(HERE), "-q", "--no-header", "--tb=short", "--capture=no"),
                *("--benchmark-disable-gc", "--benchmark-quiet", f"--figures={figures}", f"--cases={chosen.cases}"),
                *(f"--engines={chosen.engines}", f"--repeats={chosen.repeats}", f"--megabytes={chosen.megabytes}"),
            ],
            cwd=HERE.parent,
        ).returncode
        return status, results.read(figures) if figures.exists() else None


def main(arguments: list[str]) -> int:
    """Measure, or read an earlier run; write the files and print the table. Returns 1 when a benchmark failed."""
    options = parser()
    chosen = options.parse_args(arguments)
    try:
        cases.chosen(chosen.cases)
    except ValueError as error:
        options.error(str(error))
    found: results.Results | None
    if chosen.show is not None:
        status, found = 0, results.read(chosen.show)
    elif os.geteuid() != 0:
        options.error("root is needed: every engine gets namespaces of its own")
    else:
        status, found = measure(chosen)
    if found is None:
        return status or 1
    chosen.output.mkdir(parents=True, exist_ok=True)
    files = {"table.svg": drawing.svg(found), "table.md": table.markdown(found)}
    for name, content in files.items():
        (chosen.output / name).write_text(content)
    found.write(chosen.output / "table.json")
    print(table.markdown(found) if chosen.markdown else table.text(found))
    print(f"written: {', '.join(str(chosen.output / name) for name in (*files, 'table.json'))}")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
