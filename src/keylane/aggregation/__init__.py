"""Standing queries over a stream, without Spark: what a query is, whether it is allowed, and which lane a window is in.

    expressions   a filter or an argument in Spark SQL's syntax, parsed and compared with what is allowed
    query         a query, checked: filter, group, aggregates, window, lateness
    registry      which queries there are, and what a change of them changes
    order         whether results are in order, none missing, none twice
    lanes         the lane of a window under each way of dividing the work, and what load that gives
    choose        which division, over how many lanes, and whether what runs should change

Where queries are kept: `systems.query_registry`. What is done with them: `pipelines.aggregate`.
"""
