"""The processes of a container as `docker top` lists them."""
