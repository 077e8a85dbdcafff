"""Where streams are: one package for each system, behind one endpoint. The only package that imports SDKs.

    endpoint    address -> endpoint: the interface of every system, and the registry by address scheme
    flow        what passes between the source and the target of a route
    delivery    what a pipeline with state delivers into streams, batch by batch
    identity    whether a stream is still the one that a route began with
    streams     a stream as `verify` reads it, part by part
    read_range  which part of a topic is read: by time, by partition, so many records
    masks       what goes into the hashes of keys that are shown, alike for one source and one user
    texts       records that are written as text, as the typed columns that `verify` compares
    messages    what all systems of messages have in common: fields, headers, a route's state and its batches
    files       files and folders of Parquet, JSON lines and CSV
    folders     a stream as a folder of lanes: the target of `route`
    kafka       clusters, topics, producers
    kinesis     streams, shards, a contract in boto3
    journal     the state of a long-running pipeline on disk: metadata, lock, plans, commits, recovery
    checkpoint  what Spark has written down of a query, forced and compared
    resharding  a plan of splits and merges, carried out call by call
    migrations  a migration carried out step by step; migration_journal: where its steps are recorded; migration_marks:
                what its stream keeps of it
    shard_migrations  one by splits and merges: a call after the other, each in the journal first
    profiles    a profile on disk
    snapshots   the state of lanes on disk, whole or not there
    health      how a running service is, over HTTP on loopback
    leases      who holds which instance id: in one SQLite file, or in ZooKeeper
    sqlite_transaction  transactions of a SQLite file that several processes write, and durable commits
    hash_key_registry  hash keys that were handed out to accounts, in one SQLite file
    last_change  the last change of a registry in a file, noted beside it: what an older copy is found by
    query_registry  standing queries and which of them run, in one SQLite file or a topic
    atomic      atomic writes, locks, and which process a pid is
    broker      a real Kafka on this machine, for development and tests
    jars        pinned Java archives, and how they are fetched
    config      what keylane.toml and KEYLANE_* configure, each value with its source
    doctor      which of all this is installed, and what is missing

A system names its extra when a library is missing.
"""
