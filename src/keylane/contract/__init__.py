"""The promise: how a key becomes a lane, written down, validated and fingerprinted.

    names         the closed lists: partitioners, hashes, encodings, rules
    partitioners  the facts of each named partitioner: its client, hash, fold, null and empty rules, setting
    model         the contract as frozen pydantic models; also the JSON Schema
    yaml_tree     bounded YAML -> data with a line for each path
    allowed       what a field takes, in words, from the JSON Schema
    validate      what one field requires of another
    given         a contract as a caller has it: itself, its path or its text
    parse         file or text -> Contract, or every problem of it at once
    fields        which fields of a record a contract reads, and their types
    shards        hash keys as text, and the shards and hash keys that a contract names
    lane_table    the lane table of a geo contract as text with a checksum
    edit          a contract's text changed into another contract, where they differ and nowhere else
    first         the first contract of a stream, as text
    answers       what a contract implies before it runs: order scope, lanes per key, merge
    moved         which share of keys changes lane between two contracts
    fingerprint   one number for the promise, whatever its layout
    evolve        old + new contract -> what the change does
    schema        the JSON Schemas in the repository, and how they are written

How the promise is carried out: `keylane.router`.
"""
