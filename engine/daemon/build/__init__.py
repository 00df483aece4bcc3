"""Building images: the executor of a Dockerfile, its context, and its cache."""
