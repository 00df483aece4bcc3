"""BuildKit's API without a daemon."""
