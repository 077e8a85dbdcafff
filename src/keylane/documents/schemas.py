"""The published JSON Schemas of the documents: which model is whose, and how the files are written.

`python -m keylane.documents.schemas` writes them; a test holds that they are current. The contract's schemas:
`contract.schema`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from keylane.documents.model import json_schema
from keylane.documents.profile import ProfileDocument

if TYPE_CHECKING:
    from keylane.documents.model import Document

__all__ = ["DOCUMENTS", "HERE", "text", "write"]

HERE: Final = Path(__file__).parent.parent / "schemas"
#: The name of the file, and the document that it describes.
DOCUMENTS: Final[dict[str, type[Document]]] = {
    "profile": ProfileDocument,
}


def text(model: type[Document]) -> str:
    """What the file of a model holds."""
    return json.dumps(json_schema(model), indent=2, ensure_ascii=False) + "\n"


def write(to: Path = HERE) -> None:
    """Write every file."""
    for name, model in DOCUMENTS.items():
        (to / f"{name}.json").write_text(text(model), encoding="utf-8")


if __name__ == "__main__":
    write()
