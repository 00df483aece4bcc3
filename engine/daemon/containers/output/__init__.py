"""What a container says and hears: its log, and the clients attached to it."""
