"""Tests of the graph of builds."""
