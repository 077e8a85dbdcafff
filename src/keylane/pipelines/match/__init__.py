"""`match`: every available driver within so many metres of a rider, exactly; a batch of two sources, or two streams.

options      what may be said of a match
sources      a file, a folder, a routed folder or a topic -> a frame of raw records with their places
reading      raw records -> pings and requests, and dead letters; for frames of batches and of streams alike
copartition  what is refused before it starts: lanes that differ, another contract
fanout       requests -> a copy for each lane that can hold a driver near them
joined       pings and copies, lane by lane -> pairs; without ghosts; each rider's drivers in order
batch        the whole of it, into a folder that is there whole or not at all, or into a topic
verified     the same by brute force, and what differs
picture      what a page shows of it

Who is near whom is decided in `keylane.matching`, which knows no Spark.
"""
