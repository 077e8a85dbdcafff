"""Read -> steps -> write: one short module for each verb that runs on Spark.

route, batch   every record of a source in its lane: the run, and one batch of it
demo           a seeded day, routed under several contracts, and its figures
"""
