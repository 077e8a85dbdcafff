"""Files and folders of Parquet, JSON lines and CSV as sources.

endpoint  what an address of files opens to
listing   which files of a folder count, their kind, and the columns that are written in paths
follow    files as the source of a route; frames: as a Spark frame
handover  what Spark has handed over, compared with the source; spark_log: the names in its log
data      the records as Arrow batches; footers: what Parquet files say without reading
lines     lines of JSON and CSV as Arrow columns; local_scan: files that are counted without Spark
stream    a folder as `verify` reads it; migration: as one side of a mirror
"""
