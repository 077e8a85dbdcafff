"""What pipelines with state have in common: their folder, and the files of blocks between two streaming queries.

    state_folder   STATE: what may not change between two runs, which batches are in the target, staging and commit
    block_files    the records of each batch of a source, left as one file of blocks that the stateful steps read

Who uses them: `match` (`--follow`) and `aggregate`. What a stateful step is: `keylane.spark.blocks`.
"""
