"""What a start needs comes first, after the packages, each module once, and none is forgotten."""

from engine.bundle import firstuse

FILES = {
    "engine/__init__.py": b"",
    "engine/__main__.py": b"import os\nfrom engine.late import TYPE_CHECKING, late\nif TYPE_CHECKING:\n"
    b"    from engine import rare\nelse:\n    rare = late('engine.rare')\n",
    "engine/late.py": b"",
    "engine/aside.py": b"",
    "engine/rare.py": b"from engine.room.one import thing\n",
    "engine/room/__init__.py": b"",
    "engine/room/one.py": b"",
    "engine/boot.py": b"from engine.room import one\n",
    "data.json": b"{}",
}


def test_the_order_is_that_of_the_imports() -> None:
    order = firstuse.ordered(FILES)
    assert order == [
        *("engine/__init__.py", "engine/__main__.py", "engine/late.py", "engine/room/__init__.py", "engine/boot.py"),
        *("engine/room/one.py", "engine/rare.py", "engine/aside.py"),
    ]
