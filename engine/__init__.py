"""A container engine for Linux that speaks the Docker Engine API; it uses nothing outside the standard library."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - what is asked of another Python
    sys.exit("engine: it needs Python 3.11 or later, and this is %d.%d" % sys.version_info[:2])  # noqa: UP031 - any Python
