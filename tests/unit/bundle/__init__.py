"""The engine in one file: what is packed, and what finds it there."""
