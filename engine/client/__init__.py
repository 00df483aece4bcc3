"""The small command-line client: HTTP over a Unix socket, and the verbs; it knows the API and nothing of the daemon's
code.
"""
