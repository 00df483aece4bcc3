"""The database: schema and one file a table; all SQL of the engine is in here."""
