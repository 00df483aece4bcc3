"""Asking programs outside of the engine, on behalf of log drivers and plugins: connecting, TLS, one HTTP exchange."""
