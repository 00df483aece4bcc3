"""The resolver: the process that answers names at 127.0.0.11 in the containers of user-defined networks."""
