"""Prints the table, as tests/README.md is to show it."""

from tests.sandbox.published import table

print(table(), end="")
