"""The daemon's HTTP server for the Docker Engine API: listeners, connections, routes, versions, and one handler file a
noun.
"""
