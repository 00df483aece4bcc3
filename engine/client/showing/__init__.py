"""How the client shows what it has found: tables, JSON, templates, colours."""
