"""Tests of `engine.postponed`, each in an interpreter of its own."""

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]


def said(script: str) -> str:
    """What a script prints in a Python of its own, without what the environment's site brings."""
    done = subprocess.run([sys.executable, "-S", "-c", script], cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_what_an_idle_process_loads_asks_for_nothing_that_is_postponed() -> None:
    """Neither does what they bring along come by another way."""
    script = "import sys; from engine import postponed; postponed.postpone(*postponed.IDLE); import engine.boot"
    loaded = said(f"{script}, engine.daemon.main, engine.spawner.main; print(*sys.modules)").split()
    assert "traceback" in loaded
    assert not {"ast", "dis", "inspect", "tokenize", "linecache"} & set(loaded)


def test_a_module_is_there_whole_once_it_is_asked() -> None:
    """For those who imported it before, too; and it is the module that everybody gets from then on."""
    script = """
from engine.postponed import postpone
postpone("traceback", "inspect")
import inspect, logging, sys, traceback
early = traceback
try:
    raise ValueError("so it is")
except ValueError:
    logging.exception("what")
import traceback
assert traceback is not early and early.format_exc is traceback.format_exc
print(sys.modules["traceback"] is traceback, traceback.__spec__.name, inspect.isfunction(postpone), inspect.__name__)
"""
    assert said(script) == "True traceback True inspect"


def test_what_is_loaded_already_stays() -> None:
    """Nothing is taken from who has it."""
    assert (
        said(
            "import inspect, sys; from engine.postponed import postpone; postpone('inspect'); "
            "print(sys.modules['inspect'] is inspect, hasattr(inspect, 'signature'))"
        )
        == "True True"
    )


def test_an_unknown_name_is_an_attribute_error() -> None:
    """Any module raises it."""
    script = "from engine.postponed import postpone; postpone('traceback'); import traceback; "
    assert said(script + "print(hasattr(traceback, 'no_such_name'), hasattr(traceback, 'print_exc'))") == "False True"


def test_threads_that_ask_first_at_once_all_get_it() -> None:
    """Two are held up where each would take the stand-in away; with a turn for it, only one comes so far."""
    script = """
import inspect, threading
from engine import postponed
postponed.postpone("colorsys")
import colorsys
lines, first = inspect.getsourcelines(postponed._waiting)
taking = next(first + number for number, line in enumerate(lines) if "del sys.modules" in line)
both, said = threading.Barrier(2), []
def watch(frame, event, argument):
    if event == "line" and frame.f_lineno == taking:
        try:
            both.wait(0.3)
        except threading.BrokenBarrierError:
            pass
    return watch if frame.f_code.co_name == "load" else None
def ask():
    try:
        said.append(callable(colorsys.rgb_to_hls))
    except Exception as error:
        said.append(repr(error))
threading.settrace(watch)
threads = [threading.Thread(target=ask) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(*said)
"""
    assert said(script) == "True True"


def test_a_database_needs_no_dates() -> None:
    """The part of sqlite3 that the engine uses is all in the module in C."""
    script = """
import sys
from engine import postponed
postponed.postpone(*postponed.IDLE)
import sqlite3
assert "_sqlite3" not in sys.modules
connection = sqlite3.connect(":memory:", isolation_level=None)
connection.row_factory = sqlite3.Row
print(connection.execute("SELECT 7 AS x").fetchone()["x"], "datetime" in sys.modules)
try:
    connection.execute("SELECT nothing FROM nowhere")
except sqlite3.OperationalError as error:
    print(isinstance(error, sqlite3.DatabaseError), error.sqlite_errorcode != sqlite3.SQLITE_FULL)
import sqlite3
sqlite3.IntegrityError, sqlite3.Error, sqlite3.Connection
"""
    assert said(script) == "7 False\nTrue True"
