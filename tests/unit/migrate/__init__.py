"""Tests of engine/migrate."""
