"""What the tests of engine.logs share: each test that moves bytes runs once per twin."""

from tests.unit.muxer.twins import container, pipe, served, twin  # noqa: F401
