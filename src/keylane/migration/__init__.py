"""A change of contract made safe: what moves, who waits for whom, and in which steps; pure.

    drain     which old lanes each new lane waits for, from the two contracts alone
    planner   two contracts -> mode, moved share, drain graph and steps

What a change does to a contract's promises: `contract.evolve`. What it costs on counted traffic: `plan.cost`.
"""
