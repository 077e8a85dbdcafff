"""The promise: how a key becomes a lane, written down, checked and fingerprinted.

names         the closed lists: partitioners, hashes, encodings, rules
partitioners  the facts of each named partitioner: its client, hash, fold, null and empty rules, setting
model         the contract as frozen pydantic models; this is also the JSON Schema
yaml_tree     bounded YAML -> data with a line for each path
cross         what one field promises about another; `cross_table` and `cross_geo` are its parts
parse         file or text -> Contract, or every problem of it at once
answers       what a contract can say before it runs: order scope, lanes per key, merge, moved share
fingerprint   one number for the promise, whatever its layout
leaves        the lane table of lanes by place, as text with a checksum
evolve        old + new contract -> what the change does; `evolve_geo` for lanes by place
schema        the JSON Schemas in the repository, and how they are written

How the promise is carried out: `keylane.router`.
"""
