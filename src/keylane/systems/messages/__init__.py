"""Streams of messages, whatever system has them: bytes of key and value, a time, headers, lanes with offsets.

    chunks      a client's messages -> columns
    headers     the names of the headers that a route writes, and what they say
    values      fields of keys and values, in JSON, text, Avro and Protobuf
    records     whole records with the types of their schema, in Avro and Protobuf
    columns     messages for `identify` and `check`
    local_scan  messages counted in this process for `profile` and `plan`
    frames      fields as columns of Spark's
    stream      messages for `verify`
    state       the state of a route into messages
    target      messages as the target of a route: plan, writers, result

Systems build on it and do not know each other: `systems.kafka`, `systems.kinesis`.
"""
