"""The one graph of builds: operations and what they make, the solver of their nodes, and the results that it keeps.

Both doors of the builder, POST /build and BuildKit's API, make nodes of this graph.
"""
