"""Records with, without and with a null in the fields of a key, and what becomes of each under every backend.

`RECORDS` are JSON texts with the key that they have, or the reason why they have none. Readers of JSON find out that a
path cannot be followed before there is a key: for them it is the record that is malformed.
"""

from __future__ import annotations

from typing import Any, Final

PATH: Final = "payload.merchant.id"
MISSING, NULL, BAD = "missing-field", "null-key", "malformed-key"

#: For a key of one nested field.
NESTED: Final[dict[str, str]] = {
    '{"payload":{"merchant":{"id":"a"}},"n":1}': "a",
    '{"payload":{"merchant":{"id":""}}}': "",
    '{"payload.merchant.id":"own name"}': "own name",
    '{"payload.merchant.id":"own name","payload":{"merchant":{"id":"b"}}}': "own name",
    '{"payload.merchant.id":null,"payload":{"merchant":{"id":"b"}}}': NULL,
    '{"payload":{"merchant":{"id":null}}}': NULL,
    '{"payload":{"merchant":null}}': NULL,
    '{"payload":null}': NULL,
    '{"payload":{"merchant":{}}}': MISSING,
    '{"payload":{"merchant":{"ID":"a"}}}': MISSING,
    '{"payload":{}}': MISSING,
    '{"merchant":{"id":"a"}}': MISSING,
    "{}": MISSING,
    '{"payload":[{"merchant":{"id":"a"}}]}': BAD,
    '{"payload":5}': BAD,
    '{"payload":{"merchant":"{\\"id\\":1}"}}': BAD,
}
#: For a key of one field at the top.
FLAT: Final[dict[str, str]] = {'{"k":"a"}': "a", '{"k":null}': NULL, '{"n":1}': MISSING, "{}": MISSING}


def spec(field: str, **more: Any) -> dict[str, Any]:
    return {"lanes": 16, "key": {"fields": [field], "on_null": "reject", "on_empty": "hash"}, **more}
