"""The client's verbs about containers, and what these verbs share."""
