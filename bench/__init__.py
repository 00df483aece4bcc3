"""The benchmarks; `python3 -m bench` prints the table against the peers found on the machine."""
