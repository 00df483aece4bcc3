"""The plugins that the daemon uses: which it knows, and what it asks of those that authorize requests."""
