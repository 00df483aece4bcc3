"""What `python3 -m tests` makes below its cache before the tests, beside installed packages: see `tests/__main__.py`.

Run with any Python from 3.11 on and nothing installed.
"""
