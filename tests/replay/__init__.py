"""What a current dockerd answered (the transcript), asked of the engine and compared call by call."""
