"""The verbs as functions: `keylane.profile`, `plan`, `check`, `verify`, `route` and the others.

    verbs      each verb: arguments as callers have them -> the document that the command prints
    aggregate  standing queries: registered, and run over a source
    assign     who reads which lane
    shards     splits and merges: planned, and carried out
    migrate    a change of contract: planned, carried out, certified
    arguments  what an argument takes, by the signature of its verb
    progress   how far a verb is, in one shape for all

Commands and functions meet in `pipelines`, `measure` and `plan`: neither has figures of its own.
"""
