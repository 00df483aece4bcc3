"""The messages of BuildKit's services as tables of fields for `protocols.protobuf`, one module for each .proto file.

A key is what the field is called there. Every field is read, and stands for its zero where it was not sent.
"""
