"""The steps from fork to execve of a container's process 1, and of each further process in it (exec)."""
