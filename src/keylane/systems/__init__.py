"""The only rooms that know a file format's reader or an SDK. Each names its extra when that is missing.

files    folders and files of Parquet, CSV and JSON lines, as Arrow batches
kafka    a contract in producers: confluent-kafka, kafka-python
kinesis  a contract in boto3: the explicit hash key
"""
