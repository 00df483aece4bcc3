"""The benchmarks; `python3 -m bench` measures this engine and the peers found on the machine, and prints a table."""
