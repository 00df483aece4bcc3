"""The Dockerfile language apart from builds: parsing, variables, config-only instructions, .dockerignore patterns."""
