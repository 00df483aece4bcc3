"""What a client asks the Dockerfile frontend in the place of a build: `docker build --call=check|outline|targets`."""
