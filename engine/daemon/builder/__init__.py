"""Image builds: the executor of a Dockerfile's steps, the build context, and the build cache.

In the order of imports this package stands above the containers' package, because a RUN step runs a container.
"""
