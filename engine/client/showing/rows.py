"""What a row of a listing is made of, as templates and JSON see it.

Pure; loaded for each listing, so it imports nothing.
"""


class Fields(dict[str, object]):
    """A row as docker's templates see it: as JSON it has its values without functions, in order of their names."""


class Named(dict[str, str]):
    """A value that JSON shows as a map, and a template as one text: a container's platform."""

    def __init__(self, values: dict[str, str], text: str) -> None:
        super().__init__(values)
        self.text = text
