"""Read -> steps -> write: one package or module for each verb that runs on Spark, or can.

    with_spark  imported first by what cannot do without pyspark: names the extra where it is missing

    explain    where a key goes, under every client
    check      data checked against a contract; several contracts or data sets compared
    identify   who wrote a stream
    init       its first contract, from what the data shows
    route      every record of a source in its lane
    dry_run    what a route would read, decide, create and write
    verify     a target compared with its source; certificate: its document
    engine     which engine counts a source, and what both engines are asked; spark_counts: the one on Spark
    profile    every key of a source counted by window, in one pass
    plan       what is asked of a profile, and the document of the answer
    assign     who reads which lane, and what a change of members costs; assign_files: groups as text
    shards     splits and merges planned, and a saved plan on its stream; shards_files: layouts and CSV
    shards_demo  `demo shards`: accounts on shards by MD5 and by handed-out keys, and hot shards split
    migrate    a migration planned from two contracts, and from the streams where they are given
    migrate_run  a saved plan of one carried out, looked at, taken back; migrate_verify: its certificate
    migrate_mirror  the copy of a mirror, which is a route
    migrate_shards  the same by splits and merges of shards; migrate_lineage: their certificate
    geo_table  a lane table from the locations of a source
    match      drivers near riders, as a batch or following two streams
    aggregate  standing queries over a stream: windows aggregated and delivered in order
    stateful   what pipelines with state share: the state folder, files of blocks between two queries
    demo       a seeded day routed under several contracts, and its figures; `demo lesson`

The rules that they carry out are in the pure packages above; systems are opened by `keylane.systems.endpoint`.
"""
