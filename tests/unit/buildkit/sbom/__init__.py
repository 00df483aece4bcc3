"""Tests of engine/daemon/buildkit/sbom."""
