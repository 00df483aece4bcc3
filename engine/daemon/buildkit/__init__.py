"""BuildKit's API: gRPC services that `docker build` speaks to, and the sessions in which a client gives what it has.

In the order of imports this package stands above the builds' package, in front of which it is a door.
"""
