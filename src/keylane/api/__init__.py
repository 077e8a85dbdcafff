"""The verbs as functions: `profile`, `plan`, `check`, `verify`, `route`, `match`, `identify`, `explain` of `keylane`.

    verbs     each verb: arguments as callers have them -> the document that the command prints
    progress  how far a verb is, in one shape for all

Commands and functions meet in `pipelines`, `measure` and `plan`: neither has figures of its own.
"""
