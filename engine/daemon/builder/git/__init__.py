"""Sources of builds that are git repositories, fetched by the host's git."""
