"""A stream as a folder: lanes of Parquet files with dense offsets, committed batch by batch.

folder      layout, staging, commit, recovery, manifests
layout      its files by what they are, and strays among them
target      the folder as the target of a route
compaction  many small files of a lane -> few, without a reader noticing
"""
