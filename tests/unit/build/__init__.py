"""Tests of the build room, without root but where they say so."""
