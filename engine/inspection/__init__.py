"""What the processes of an engine hold, seen from outside: for an operator whose daemon hangs or is dead."""
