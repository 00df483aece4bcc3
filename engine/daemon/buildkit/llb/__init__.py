"""Graphs of operations that clients bring (LLB): read, checked, and turned into nodes of the build graph."""
