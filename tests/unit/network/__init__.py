"""Tests of engine.daemon.network, with no root and no kernel."""
