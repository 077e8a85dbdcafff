"""The test kit that ships with keylane, for its own tests and for those of its users.

`history` is a checker of histories, on which `keylane verify` stands too; `folders` an auditor of stream folders that
shares no code with what writes them. The golden vectors, hash values and placements published by other projects, are
data files in `vectors/` and are read by `golden.py`. Nothing here is needed to route a record.
"""
