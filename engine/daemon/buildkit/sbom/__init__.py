"""Bills of materials (SBOM): what is in a build's result, as the program of an image, its generator, finds it."""
