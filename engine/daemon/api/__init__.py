"""The Engine API over HTTP: server, routes, versions, and one handler file a noun."""
