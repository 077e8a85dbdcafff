"""The only rooms that know a file format's reader or an SDK. Each names its extra when that is missing.

files    folders and files of Parquet, CSV and JSON lines, as Arrow batches
kafka    a contract in producers: confluent-kafka, kafka-python; `kafka_measured`: errors, batches, lag;
         `kafka_budget`: what brokers carry; `kafka_reassign`: moves it
kinesis  a contract in boto3: the explicit hash key
broker   a real Kafka of our own on this machine, for development and tests; `process` tells one process from another
jars     Java archives that are pinned; `ivy` fetches them
doctor   what of all this is here, and what is missing
"""
