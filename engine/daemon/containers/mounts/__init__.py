"""What is mounted in a container: as it was asked for, as inspect shows it, as init makes it."""
