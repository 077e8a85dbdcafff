"""Groups: who reads which lane, now and after every coming and going. All pure: no client, no clock, no chance.

    model         a member and its subscription, lanes as (topic, index), an assignment of lanes to members
    assignors     members, lanes and the assignment before -> the assignment after: one algorithm a file
    balance       even counts with the fewest moves: what the sticky assignors share
    invariants    what every assignment keeps, how even it is, and what has moved
    changes       members that come, go, restart: what moves, what waits, and for how long
    ownership     static ownership: ids, leases, terms that only grow, and the fence that refuses former owners
    coordinator   a group's coordinator as a state machine: generations, sessions, two-phase rebalances; not a broker
    member        the other end of that protocol
    simulation    a seeded simulator: processes that pause and crash, a network that loses, delays and repeats
    group_simulation, lease_simulation   the coordinator and its readers, owners and their leases, in simulated hours
    exhaustive    every interleaving of a small case, breadth first

A live group on a broker is read by `systems.kafka`. Which lane a record belongs in is not decided here: `router`.
"""
