"""The API's own room: parser, server, routes, bodies, and the handlers over stores that are made up."""
