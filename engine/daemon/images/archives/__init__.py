"""Reading image archives: their members, docker's oldest archive format, and files fetched from a URL."""
