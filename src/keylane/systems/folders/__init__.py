"""A stream as a folder: lanes of Parquet files with dense offsets, committed batch by batch.

folder      the target: layout, staging, commit, recovery, manifests
compaction  many small files of a lane -> few, without a reader noticing
"""
