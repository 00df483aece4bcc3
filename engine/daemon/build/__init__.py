"""Building images: the executor of a Dockerfile, its context, and its cache.

The room stands above that of the containers, because a RUN step runs one.
"""
