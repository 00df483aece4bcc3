"""The life of a container: one file a verb, what ends a run and what begins the next."""
