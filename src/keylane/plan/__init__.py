"""Which lanes, how many, and what a change costs: from a profile's counts, before anything runs. Pure, as `measure` is.

ceiling   what no lane count and no placement can beat: the hottest key, and keys that must share a lane
limits    limits of brokers and services, as data with their names
sizing    lane count from throughput, with the skew counted in
cost      what a change of contract moves, breaks and freezes; which old lanes each new lane waits for
"""
