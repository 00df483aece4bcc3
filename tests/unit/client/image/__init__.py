"""Unit tests of the client's verbs about images."""
