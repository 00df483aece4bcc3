"""What a daemon of a user's own does before it boots: it moves into namespaces in which the user is root."""
