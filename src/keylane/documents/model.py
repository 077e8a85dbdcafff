"""The base of all documents, the numbers that they share, and the JSON Schema of one.

A document that is printed is checked against its own model first, so the published schema cannot promise anything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from keylane.contract.allowed import allowed_at
from keylane.documents.notebook import drawn
from keylane.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import GetCoreSchemaHandler


DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"


class _AsGiven:
    """A whole number in a field of floats is printed as it was given: 0, not 0.0."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        def checked(value: Any, check: Callable[[Any], Any]) -> Any:
            check(value)
            return value

        return core_schema.no_info_wrap_validator_function(checked, handler(source))


Number: TypeAlias = Annotated[float, _AsGiven()]
AtLeastZero: TypeAlias = Annotated[float, Field(ge=0), _AsGiven()]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1), _AsGiven()]
Count: TypeAlias = Annotated[int, Field(ge=0)]
AtLeastOne: TypeAlias = Annotated[int, Field(ge=1)]
LaneId: TypeAlias = Annotated[int, Field(ge=0, le=99_999)]
PartitionerName: TypeAlias = Annotated[str, StringConstraints(pattern="^[a-z0-9]+(-[a-z0-9]+)*$")]
Text: TypeAlias = Annotated[str, StringConstraints(min_length=1)]
#: What may hold a path, and so bytes that are no text: those fail every limit, so the schema alone has it.
PathText: TypeAlias = Annotated[str, Field(json_schema_extra={"minLength": 1})]
#: SHA-256, in hex.
Digest: TypeAlias = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]


class Document(BaseModel):
    """A document or a part of one. A name that Python has for itself ends in `_`, and is printed without.

    Fields are printed in their order. All of them are, None as null, but for those with `exclude_if=missing`.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=lambda name: name.removesuffix("_"),
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
    )

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return drawn(self)

    def as_json(self) -> dict[str, Any]:
        """The values that `json.dumps` prints."""
        return self.model_dump(by_alias=True)

    @classmethod
    def from_json(cls, given: Document | Mapping[str, Any]) -> Self:
        """A document that was printed and read again, by `json.load`; one that is a model already, as it is."""
        if isinstance(given, cls):
            return given
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            what = f"not a document of {cls.model_config.get('title', cls.__name__)}"
            raise DataError.of(f"{what}: {_problem(cls, error)}") from error


def _problem(model: type[BaseModel], error: ValidationError) -> str:
    """The first thing that is wrong, without its value, which may be a key."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(map(str, first["loc"])) or "all of it"
    if first["type"] in {"missing", "extra_forbidden"}:
        return f"{where} is {'missing' if first['type'] == 'missing' else 'unknown'}"
    allowed = allowed_at(TypeAdapter(model).json_schema(by_alias=True, schema_generator=_Schema), first["loc"])
    return f"{where} is wrong" + (f"; allowed: {allowed}" if allowed else "")


def missing(value: object) -> bool:
    """For `Field(None, exclude_if=missing)`: a field that is left out where it has no value."""
    return value is None


def json_schema(model: Any) -> dict[str, Any]:
    """The schema of a document: its `title` is the model's, its description the docstring.

    Of several, or of dataclasses: an annotated type with both.
    """
    made = TypeAdapter(model).json_schema(by_alias=True, schema_generator=_Schema)
    first = {"$schema": DRAFT, "title": made.pop("title"), "description": made.pop("description")}
    return {**first, **made}


_BOUNDS: Final = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}


class _Schema(GenerateJsonSchema):
    """Pydantic's, in the form of a person: no titles of parts, no defaults, null as one more type."""

    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        """Bounds of a number that is kept as it was given come by pydantic's names."""
        return {_BOUNDS.get(name, name): value for name, value in super().generate_inner(schema).items()}

    def sort(self, value: JsonSchemaValue, parent_key: str | None = None) -> JsonSchemaValue:  # noqa: ARG002  as in pydantic
        """Fields and their rules stay in the order of the model. Titles of parts are their names: they go."""
        for part in value.get("$defs", {}).values():
            part.pop("title", None)
        return value

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  as in pydantic
        """Never: it would repeat the name."""
        return False

    def field_is_required(self, field: Any, total: bool) -> bool:  # noqa: ARG002  as in pydantic
        """All that is always printed, what has a default too."""
        return field.get("serialization_exclude_if") is None

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Without the default: a reader of documents has no use for it."""
        return self.generate_inner(schema["schema"])

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        """`"type": ["integer", "null"]`, where there is a type."""
        inner = self.generate_inner(schema["schema"])
        if isinstance(inner.get("type"), str) and "const" not in inner:
            values = {"enum": [*inner["enum"], None]} if "enum" in inner else {}
            return {**inner, "type": [inner["type"], "null"], **values}
        return {"anyOf": [inner, {"type": "null"}]}

    def model_field_schema(self, schema: core_schema.ModelField) -> JsonSchemaValue:
        """A field that may be left out is never null."""
        inner = schema["schema"]
        while schema.get("serialization_exclude_if") and inner["type"] in {"default", "nullable"}:
            inner = inner["schema"]
        return self.generate_inner(inner)

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        """Rules of the names as `propertyNames`, so that a name that breaks them is refused."""
        names = self.generate_inner(schema["keys_schema"]) if "keys_schema" in schema else {}
        names.pop("type", None)
        values = self.generate_inner(schema["values_schema"]) if "values_schema" in schema else {}
        return {"type": "object", **({"propertyNames": names} if names else {}), "additionalProperties": values}
