"""What `engine check` finds out: what this host has and lacks, what the engine does without it, and what mends it."""
