"""What the tests stand on: a daemon in namespaces of its own, raw HTTP, images, a registry, the search for leaks."""
