"""Protocols (HTTP/1.1, WebSocket) as pure functions and state machines: bytes in, values out; no socket and no file."""
