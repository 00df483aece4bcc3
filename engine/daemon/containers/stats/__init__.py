"""What a container uses: samples of its counters, and those who watch them."""
