"""The process that answers at 127.0.0.11 in every container of a user-defined network; it outlives the daemon."""
