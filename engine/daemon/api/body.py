"""Decodes the JSON body of a request along a schema as Go decodes into its structs, and refuses it with Go's error
texts.

Pure; runs in the request's thread. Names match without regard to case, unknown names are passed over, and null leaves a
field out. If several values have a wrong type, the error tells the first one. The result holds the names as the schema
spells them, and only what the client sent: the handlers add the defaults. The schemas are made of the classes in here
and stand in `schemas`.
"""

import json
from collections.abc import Callable
from functools import cached_property

from engine.daemon import jsontext
from engine.daemon.jsontext import Object
from engine.dataclass import dataclass, field
from engine.errors import Invalid
from engine.late import TYPE_CHECKING, late
from engine.literals import integer
from engine.regex import regex

if TYPE_CHECKING:  # loaded by the first body that is no JSON
    from engine.daemon import jsonerror
else:
    jsonerror = late("engine.daemon.jsonerror")

# Every level of nesting is a C call of the decoder, and a thread's stack is small (see `runtime.worker.STACK_SIZE`).
DEPTH_LIMIT = 200

_JSON_TYPE = "application/json"
_MEDIA_TYPE = regex(r"\s*([!#$%&'*+\-.^_`|~0-9A-Za-z]+/[!#$%&'*+\-.^_`|~0-9A-Za-z]+)\s*(?:;.*)?")
_SPACE = " \t\r\n"


class _Number(str):
    """A number that Python would not keep as the client wrote it. Go's error texts show it as it was written."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Scalar:
    """A text, number or truth value.

    go: Go's name of the type; low, high: the bounds of a number
    parse: makes the value of a text, or raises Invalid
    """

    go: str
    kind: type[str] | type[int] | type[bool]
    low: int = 0
    high: int = 0
    parse: Callable[[str], object] | None = None


@dataclass(frozen=True, slots=True)
class Array:
    """A list. `length` is for Go's arrays, which are filled up or cut to it; `pointers`: a null item stays None."""

    item: "Schema"
    length: int | None = None
    pointers: bool = False

    @property
    def go(self) -> str:
        """Go's name of the type."""
        return f"[{self.length or ''}]{'*' * self.pointers}{self.item.go}"


@dataclass(frozen=True, slots=True)
class Mapping:
    """An object whose names the client chooses.

    name: Go's name of the type where it has one of its own; key: checks and converts each name, or raises Invalid
    pointers: a null value stays None
    """

    value: "Schema"
    name: str = ""
    key: Callable[[str], str] | None = None
    pointers: bool = False

    @property
    def go(self) -> str:
        """Go's name of the type."""
        return self.name or f"map[string]{'*' * self.pointers}{self.value.go}"


@dataclass(frozen=True)
class Struct:
    """An object with known names.

    go: Go's name of the struct
    embedded: name of the embedded Go struct → its fields. In JSON they stand among the other fields; in the texts of
    errors they stand below that name.
    empty: whether keys with an empty value are in the result (True, as Go writes a struct) or not (False, as with
    omitempty); None: the result has what the client sent.
    """

    go: str
    own: "Fields"
    embedded: "dict[str, Fields]" = field(default_factory=dict)
    empty: bool | None = None

    @cached_property
    def fields(self) -> dict[str, "tuple[str, str, Schema]"]:
        """Lower-case name → (name, path in error texts, schema)."""
        rows = {name.lower(): (name, name, schema) for name, schema in self.own.items()}
        for struct, fields in self.embedded.items():
            rows |= {name.lower(): (name, f"{struct}.{name}", schema) for name, schema in fields.items()}
        return rows

    def written(self, decoded: Object) -> Object:
        """`decoded` with the keys that Go would write of it; an omitted struct is a nil pointer, and `{}` is not."""
        if self.empty is None:
            return decoded
        if self.empty:
            return {name: decoded.get(name, zero(schema)) for name, schema in self.own.items()}
        pointers = (name for name, schema in self.own.items() if isinstance(schema, Struct))
        kept = decoded.keys() & {*pointers, *(name for name, value in decoded.items() if value)}
        return {name: decoded[name] for name in self.own if name in kept}


Schema = Scalar | Array | Mapping | Struct
Fields = dict[str, Schema]


def decode_body(data: bytes, content_type: str, schema: Struct | Mapping, required: bool = False) -> Object:
    """A request's body decoded along `schema`. An empty body is an empty object unless it is `required`. Raises
    Invalid.
    """
    decoded = _decoded_body(data, content_type, schema, required)
    return decoded if isinstance(decoded, dict) else {}


def check_body(data: bytes, content_type: str, schema: Schema, required: bool = False) -> None:
    """Decode a body of which nothing is used, and raise Invalid for the same faults as `decode_body`."""
    _decoded_body(data, content_type, schema, required)


def _decoded_body(data: bytes, content_type: str, schema: Schema, required: bool) -> object:
    if data or content_type:
        _check_content_type(content_type)
    if not data and not required:
        return None
    return _decoded(data, schema)


def decode(data: bytes, schema: Struct | Mapping) -> Object:
    """A JSON text decoded along `schema`. Raises Invalid with `invalid JSON: ` and Go's words."""
    decoded = _decoded(data, schema)
    return decoded if isinstance(decoded, dict) else {}


def _decoded(data: bytes, schema: Schema) -> object:
    value, rest = load(data)
    if rest.strip(_SPACE):
        raise Invalid("unexpected content after JSON")
    walk = _Walk()
    try:
        decoded = walk.value(value, schema)
    except Invalid as error:
        raise Invalid(f"invalid JSON: {error}") from error
    if walk.mismatch:
        raise Invalid(f"invalid JSON: json: cannot unmarshal {walk.mismatch}")
    return decoded


def is_json(content_type: str) -> bool:
    """Whether a body of this content type is read as JSON."""
    media = _MEDIA_TYPE.fullmatch(content_type)
    return media is not None and media.group(1).lower() == _JSON_TYPE


def _check_content_type(content_type: str) -> None:
    if not content_type:
        raise Invalid("malformed Content-Type header (): mime: no media type")
    media = _MEDIA_TYPE.fullmatch(content_type)
    if media is None:
        raise Invalid(f"malformed Content-Type header ({content_type})")
    if media.group(1).lower() != _JSON_TYPE:
        raise Invalid(f"unsupported Content-Type header ({content_type}): must be '{_JSON_TYPE}'")


def load(data: bytes) -> tuple[object, str]:
    """The first value of a JSON text, and the text that follows it. Numbers that Python cannot hold as they are stay
    texts.

    Raises Invalid. JSON of requests is to be read by this function or by `jsontext.parse`, because they bound its
    depth.
    """
    text = data.decode("utf-8", "replace").lstrip(_SPACE)
    if jsontext.deeper_than(DEPTH_LIMIT, text):
        raise Invalid("invalid JSON: exceeded max depth")
    try:
        value, end = _DECODER.raw_decode(text)
    except ValueError as error:
        raise Invalid(f"invalid JSON: {jsonerror.explain(data) or error}") from error
    if "\\u" in text:
        value = jsontext.whole_characters(value)
    return value, text[end:]


def _refuse_constant(name: str) -> None:
    raise ValueError(f"invalid character '{name[0]}' looking for beginning of value")


def _integer(text: str) -> int | _Number:
    # no integer of Go's is longer, and Python limits the digits that int() takes
    return int(text) if len(text) <= 20 else _Number(text)


_DECODER = json.JSONDecoder(parse_float=_Number, parse_int=_integer, parse_constant=_refuse_constant)
_KINDS = {str: "string", int: "number", bool: "bool", list: "array", dict: "object", _Number: "number"}


class _Walk:
    """One pass over a decoded value along a schema; keeps the first mismatch and its place, as Go's decoder does."""

    def __init__(self) -> None:
        self.mismatch = ""
        self._struct = ""
        self._path: tuple[str, ...] = ()

    def value(self, value: object, schema: Schema) -> object:
        """`value` as `schema` wants it; None for null and for a value that does not fit."""
        if value is None:
            return None
        if isinstance(schema, Scalar):
            return self.scalar(value, schema)
        if isinstance(schema, Array):
            return self.array(value, schema)
        if isinstance(schema, Mapping):
            return self.mapping(value, schema)
        return self.struct(value, schema)

    def fail(self, value: object, schema: Schema, detail: str = "") -> None:
        if self.mismatch:
            return
        where = f"struct field {'.'.join((self._struct, *self._path))}" if self._struct else "value"
        self.mismatch = f"{_KINDS[type(value)]}{detail} into Go {where} of type {schema.go}"

    def scalar(self, value: object, schema: Scalar) -> object:
        if type(value) is not schema.kind:
            self.fail(value, schema, f" {value}" if type(value) is _Number and schema.kind is int else "")
            return None
        if type(value) is str and schema.parse is not None:
            return schema.parse(value)
        if type(value) is int and not schema.low <= value <= schema.high:
            self.fail(value, schema, f" {value}")
            return None
        return value

    def array(self, value: object, schema: Array) -> object:
        if type(value) is not list:
            self.fail(value, schema)
            return None
        items = [_or_zero(self.value(item, schema.item), schema.item, schema.pointers) for item in value]
        if schema.length is not None:
            items = (items + [zero(schema.item)] * schema.length)[: schema.length]
        return items

    def mapping(self, value: object, schema: Mapping) -> object:
        if type(value) is not dict:
            self.fail(value, schema)
            return None
        key_of = schema.key or str
        return {
            key_of(key): _or_zero(self.value(item, schema.value), schema.value, schema.pointers)
            for key, item in value.items()
        }

    def struct(self, value: object, schema: Struct) -> object:
        if type(value) is not dict:
            self.fail(value, schema)
            return None
        decoded = {}
        outer, path = self._struct, self._path
        for key, item in value.items():
            row = schema.fields.get(key.lower())
            if row is None:
                continue
            name, shown, field_schema = row
            self._struct = schema.go.rpartition(".")[2]
            self._path = (*path, shown)
            part = self.value(item, field_schema)
            if part is not None:
                decoded[name] = part
        self._struct, self._path = outer, path
        return schema.written(decoded)


def _or_zero(value: object, schema: Schema, pointer: bool) -> object:
    return zero(schema) if value is None and not pointer else value


def zero(schema: Schema) -> object:
    """Go's zero value for a null: the empty value of a text, number, truth value or struct; None for all else."""
    if isinstance(schema, Scalar):
        return schema.kind()
    return schema.written({}) if isinstance(schema, Struct) else None


def parse_port(text: str) -> str:
    """A port such as `80/tcp` in its full form; the protocol is `tcp` unless the text names one. Raises Invalid."""
    if not text:
        raise Invalid("invalid port: value is empty")
    port, _, protocol = text.partition("/")
    if not port:
        raise Invalid("invalid port '': value is empty")
    try:
        number = integer(port, 0, 65535, reader="")
    except Invalid as reason:
        raise Invalid(f"invalid port '{port}': {reason}") from reason
    return f"{number}/{protocol.lower() or 'tcp'}"


def parse_exposed(text: str) -> str:
    """A port as `parse_port` has it, but without a protocol where the text names none (`versions`). Raises Invalid."""
    return parse_port(text) if "/" in text else parse_port(text).partition("/")[0]
