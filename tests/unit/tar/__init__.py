"""Tests of the tar room."""
