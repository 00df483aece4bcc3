"""The daemon tower: threads, the API, state, images; it talks to the container tower in `wire` messages only."""
