"""The client's verbs about images, and what these verbs share."""
