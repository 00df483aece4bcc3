"""Protocols as pure functions and state machines: bytes in, values out; no socket and no file."""
