"""Files and folders behind an address: what `open_endpoint` gives for a path.

What each ability does is in a module of its own, which is imported when it is asked for.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from keylane.contract.fields import FieldSpec
from keylane.systems.endpoint import Endpoint

if TYPE_CHECKING:
    from keylane.contract.model import Contract
    from keylane.systems.streams import Description, Stream

__all__ = ["FilesEndpoint"]


class FilesEndpoint(Endpoint):
    """A file, a folder of files, or a folder that `route` made."""

    @property
    def path(self) -> Path:
        """Where it is."""
        return Path(self.address.name).absolute()

    def describe(self, fields: FieldSpec) -> Description:
        """The files as one data set, with the columns of their folders."""
        from keylane.systems.files.data import open_data

        return open_data(self.address.name, fields.text)

    def as_source(self, target: Stream, contract: Contract | None) -> Stream:  # noqa: ARG002  files have columns
        """The files, of the kind that the target remembers."""
        from keylane.systems.files.stream import source_stream

        return source_stream(self.path, target)

    def as_target(self, source: Endpoint, contract: Contract | None) -> Stream:
        """A folder with `stream=S/lane=N/` in it."""
        from keylane.systems.files.stream import routed_messages, target_stream

        stream = target_stream(self.path)
        return routed_messages(stream, source.message_fields(FieldSpec.of(contract))) if source.messages else stream
