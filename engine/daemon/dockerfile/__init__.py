"""A Dockerfile's grammar: its text in, values out; also .dockerignore, and what changes only an image's config."""
