"""The spawner: one small single-threaded process that receives a request and forks; nothing else."""
