"""Tests of the Dockerfile's grammar, without root: texts in, values out."""
