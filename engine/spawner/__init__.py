"""The spawner: one small single-threaded process that receives a request and forks a monitor or the resolver for it."""
