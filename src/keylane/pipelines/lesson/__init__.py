"""The lesson on H3 cells as Kafka keys, done right: its own test, on a real broker, with two hashes side by side.

drivers   a hundred drivers around six cities, seeded, as an Arrow table
figures   pure: counts -> each figure beside what the lesson asks of it, and why one of them cannot be had
run       the steps in a row: topics, a group that reads along, a producer, what the broker holds

What is measured on the way: `keylane.systems.kafka_measured`.
"""
