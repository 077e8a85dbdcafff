"""The peer of `match`: the same topology in Kafka Streams.

run      starts it on a broker, waits for its end, and says what it took
java     the topology itself
"""
