"""The messages between the processes of the engine, their codec, and the channel that carries them."""
