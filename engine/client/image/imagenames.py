"""Splits the names of images as the client needs them.

Pure.
"""

from engine.errors import Invalid


def split_reference(reference: str) -> tuple[str, str]:
    """A reference as (name, tag or digest), with the tag `latest` where it has neither; a port is not
    taken for a tag.
    """
    name, separator, digest = reference.partition("@")
    if separator:
        return name, digest
    head, separator, tag = reference.rpartition(":")
    return (head, tag) if separator and "/" not in tag else (reference, "latest")


def registry_of(reference: str) -> str:
    """The registry that a name means: `host[:port]`, or Docker Hub's."""
    head, separator, _ = reference.partition("/")
    if separator and ("." in head or ":" in head or head == "localhost"):
        return head
    return "docker.io"


def platform_of(text: str) -> str:
    """`os[/arch[/variant]]` as the JSON of an OCI platform; empty for none. Raises Invalid."""
    names = ("os", "architecture", "variant")
    parts = text.split("/") if text else []
    if len(parts) > len(names) or not all(part.replace(".", "").isalnum() for part in parts):
        raise Invalid(f"invalid platform: {text}")
    members = ",".join(f'"{name}":"{part}"' for name, part in zip(names, parts, strict=False))
    return f"{{{members}}}" if parts else ""
