"""The client of registries: what verbs ask of one, and how."""
