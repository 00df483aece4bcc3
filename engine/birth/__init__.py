"""From fork to execve: what a container's process 1, and one more process of it, go through."""
