"""Which drivers are near which riders, exactly: the steps of `match`, pure. Needs the extra `geo`.

    tables    the Arrow schemas of everything here, row order, and requests that arrive more than once
    sphere    distances
    cover     a request -> the lanes that can hold a driver near it: home, and guests
    timeline  what a lane knows of its drivers over time
    near      timelines and requests -> pairs; the lanes' pairs -> each request's answer
    assign    pairs -> one driver to at most one rider, and who holds an offered driver until when
    brute     the definition, without any of the above

Carried out on Spark: `keylane.pipelines.match`.
"""
