"""The fixtures of the tests of archives and trees."""

from tests.unit.tar.ways import way  # noqa: F401
