"""COPY and ADD: finding and digesting their sources, their destination in the base image, and packing the layer."""
