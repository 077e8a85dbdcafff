"""`keylane aggregate`: standing queries over a stream of events, windows aggregated and delivered in order.

    options    what may be set, checked
    sources    files or messages, as a stream of Spark's and its batches
    events     a batch of a source as a frame of events
    matching   stage 1: events -> parts of windows, left as files of blocks with the queries of the batch
    batches    stages 2 and 3: blocks -> windows -> results in order, committed in one step
    results    results as columns and as messages
    targets    where they go: a folder, or streams
    run        all of it
    verify     whether the results of a target are in order
    explain    the load of lanes by what was delivered

What a query is: `aggregation`. The steps in Java: `spark/jvm/aggregate`.
"""
