"""Makes the engine one file (`engine.pyz`), and that file a Debian package."""
