"""Tests of the build room that need neither a daemon nor root."""
