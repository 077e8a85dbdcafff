"""Who is near whom, exactly: the steps of `match`, pure. Needs the extra `geo`.

schemas    the Arrow shapes of everything here, and the units
cover      a request -> the lanes that can hold a driver near it: home, and guests
homes      pings of drivers that change lanes -> tombstones to the lanes they left
timeline   what a lane knows of its drivers over time
requests   a request that is told more than once counts once
near       timelines and requests -> pairs
merge      the lanes' pairs -> each request's answer
assign     pairs -> one driver to at most one rider
offers     who holds a driver, until when
brute      the definition, without any of the above
sphere     distances; order: rows in order

Carried out on Spark: `keylane.pipelines.match`.
"""
