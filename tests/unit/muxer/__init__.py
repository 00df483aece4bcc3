"""Tests of _muxer: the C core against its Python twin, and under the sanitizers."""
