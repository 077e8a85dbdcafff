"""A change of contract made safe: what moves, who waits for whom, and in which steps; pure.

    drain     which old lanes each new lane waits for, from the two contracts alone
    planner   two contracts -> mode, moved share, drain graph and steps
    cost      keys and bytes that move, disk, network and pause, and how each figure is known
    cutover   the steps as a state machine: a journal and a look at the world -> what to do next
    gate      what a reader may apply meanwhile
    exhaustive_cutover   every interleaving of a small cut-over, with its broken twins
    exhaustive_mirror    the same of a mirror, with a pause and with writes to both streams
    exhaustive_drivers   drivers and journal of both searches
    cutover_simulation   hours of cut-overs under faults, with the same twins

What a change does to a contract's promises: `contract.evolve`. What it costs on counted traffic: `plan.cost`.
"""
