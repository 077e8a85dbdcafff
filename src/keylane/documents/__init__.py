"""What each command prints with `-o json`, as frozen models: the JSON Schemas and the pages come from them.

model     the base of all of them, the numbers they share, and how a schema is made of one
notebook  what a notebook asks a document for
schemas   which model is whose; `python -m keylane.documents.schemas` writes `keylane/schemas/*.json`

Every other module is the document of one command and has its name. Only shapes are here: a document is made where its
figures are (`profile.document`, `plan.document`, `pipelines`), and drawn by `report`.
"""
