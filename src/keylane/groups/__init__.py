"""Groups: who reads which lane, now and after every coming and going. All pure: no client, no clock, no chance.

    model         a member and its subscription, lanes as (topic, index), an assignment of lanes to members
    assignors     members, lanes and the assignment before -> the assignment after: one algorithm a file
    ownership     static ownership: ids, leases, epochs that only grow, and the fence that refuses former owners

A live group on a broker is read by `systems.kafka`. Which lane a record belongs in is not decided here: `router`.
"""
