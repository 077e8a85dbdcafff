"""Who is near whom, exactly: the steps of `match`, pure. Needs the extra `geo`.

Carried out on Spark: `keylane.pipelines.match`.
"""
