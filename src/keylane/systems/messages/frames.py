"""Fields of messages as columns of a frame of Spark's, whatever system the frame came from.

The same over Arrow: `values`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from keylane.spark.messages import from_decoder, from_json, from_message, from_text
from keylane.systems.messages.values import UNREAD, checked_form, read_fields, schema_for

if TYPE_CHECKING:
    import pyarrow as pa

    from keylane.contract.fields import FieldSpec
    from keylane.spark.messages import Fields
    from keylane.systems.endpoint import StreamOptions


def message_columns(spec: FieldSpec, options: StreamOptions) -> Fields:
    """The fields as columns of a frame of messages, and which messages cannot be read; None when all can."""
    own = from_message(spec)
    checked_form(spec, options.value)
    if not spec.of_value:
        return own, None
    schema = schema_for(spec, options)
    if schema is not None:

        def decode(values: pa.Array) -> pa.Array:
            return read_fields(schema, values)

        found, unread = from_decoder(spec, decode, UNREAD)
    else:
        found, unread = from_text(spec) if options.value == "utf8" else from_json(spec)
    return {**own, **found}, unread
