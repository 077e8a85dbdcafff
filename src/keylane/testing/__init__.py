"""The test kit that ships with keylane, for its own tests and for those of its users.

    history  the history checker of `keylane.history`, which `keylane verify` uses too
    folders  an auditor of stream folders that shares no code with what writes them
    golden   hash values and placements published by other projects; the data files are in `vectors/`

Nothing here is needed to route a record. Killing and pausing brokers: `keylane.systems.broker.faults`.
"""
