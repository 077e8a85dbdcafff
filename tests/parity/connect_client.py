"""A process that places cases over Spark Connect: one process can speak to Spark in one way only.

    python -m tests.parity.connect_client sc://127.0.0.1:PORT

Reads pickled lists of cases, writes their pickled outcomes, or the text of what went wrong. The word "way" asks how it
calls Java.
"""

from __future__ import annotations

import os
import pickle
import sys
from typing import Any

from pyspark.sql import SparkSession
from tests.parity.backends import by_spark

from keylane.spark.java_calls import java_backend


def main(url: str) -> None:
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    spark = SparkSession.builder.remote(url).getOrCreate()
    while True:
        try:
            asked = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer: Any = java_backend(spark) if asked == "way" else by_spark(spark, asked)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test that asked must see it
            answer = f"{type(error).__name__}: {error}"
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])
