"""Strategies compared and a change priced, from a profile alone: no Spark, no client, no clock.

    hashed_keys     the keys of a profile under a hash, and the cuts of time that strategies are fitted and scored on
    current         today's contract on the same keys
    strategies      which keys each strategy moves; geo_strategies: the same for keys that are locations
    candidates      every strategy at every lane count, fitted and scored
    choose          which candidate to take, under the user's constraints
    advice          what it comes to: worth it, leave it, worse than today; whether it holds on later records
    reasons         why, a sentence each
    bounds          what no lane count and no placement can beat
    sizing          lane count from throughput, and the limits of services
    cost            what a change of contract costs: keys and records moved, what waits, what breaks
    contract_text   a candidate as the text of a contract
    planner         all of it: a profile -> a plan
    lane_tables     a lane table from counted locations; geo_work: its copies, and what its fullest lane has to do
    document        a plan as a document; geo_document: a lane table as one
    shards          a plan of splits and merges, from a layout of shards and its load
    text            a plan in a page of plain text
    saved           a plan that is saved for `keylane apply`, and what people have to do

The profile: `keylane.profile`. The page: `keylane.report`. Brokers instead of lanes: `keylane.brokers`.
"""
