"""Regular expressions as Go's package regexp takes them, searched for in linear time and bounded memory.

Pure. Loaded by the first filter that is more than a plain text. It answers whether an expression is found, and
replaces what it finds.
"""
