"""The test kit that ships with keylane, for its own tests and for those of its users.

The golden vectors, hash values and placements published by other projects, are data files in
`vectors/` and are read by `golden.py`. Nothing here is needed to route a record.
"""
