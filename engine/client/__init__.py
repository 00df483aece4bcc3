"""The client: HTTP over a Unix socket and the command-line verbs; it knows the API and nothing of the daemon."""
