"""BuildKit's checks of Dockerfiles: what a file has that is allowed and yet no good, as warnings with their lines."""
