"""A session with Spark's Kafka connector, whose Java can log in to a cluster without the password in an option.

Options of Spark are shown in plans, logs and pages. A login's password is therefore in none of them: Java reads it
once, from a file that is there for that moment only, in a folder that only this user can enter, and keeps it in memory.
What may be set about a cluster: `access`.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from keylane.private import own_folder
from keylane.systems.jars import connector_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from keylane.spark.context import RunContext
    from keylane.systems.endpoint import StreamOptions
    from keylane.systems.kafka.access import KafkaAccess


@contextmanager
def kafka_session(run: RunContext, options: StreamOptions, access: KafkaAccess) -> Iterator[SparkSession]:
    """The session of a pipeline from or into Kafka; its Java is logged in for as long as this is open."""
    from keylane.spark.context import session_beside

    has_jars = run.spark is not None or {"spark.jars", "spark.jars.packages"} & set(run.conf)
    connector = {} if has_jars else connector_settings(options.jars, options.packages, run.say)
    session = session_beside(run.spark, run.master, {**connector, **run.conf}, run.say)
    text = access.jaas()
    if text is None:
        yield session
        return
    java: Any = session.sparkContext._jvm  # noqa: SLF001  PySpark has no public way to Java
    logins = java.javax.security.auth.login.Configuration
    logins.setConfiguration(_read_login(java, text))
    try:
        yield session
    finally:
        # Java reads its own again when it is next asked: the user's login, or none.
        logins.setConfiguration(None)


def _read_login(java: Any, text: str) -> Any:
    """A configuration in Java's memory; the file that it was read from is gone."""
    with own_folder() as folder:
        handle = os.open(folder / "login", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        source = java.java.security.URIParameter(java.java.io.File(str(folder / "login")).toURI())
        return java.javax.security.auth.login.Configuration.getInstance("JavaLoginConfig", source)
