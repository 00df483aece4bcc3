"""The client for image registries: transport, authorization, reading and writing, and the work of a pull or push."""
