"""Resource usage of containers: samples of their counters, and the clients that watch them (`docker stats`)."""
