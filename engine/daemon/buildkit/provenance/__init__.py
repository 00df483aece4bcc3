"""Where a build's result comes from: what the build has used, and the document that says so (SLSA provenance)."""
