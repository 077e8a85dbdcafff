"""A session with Spark's Kafka connector, whose Java can log in to a cluster without an option that says how.

Options of Spark are shown in plans, logs and pages. A login's password is therefore in none of them: Java reads it from
a file, which only this user can read and which is gone afterwards. What may be said of a cluster: `kafka_access`.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from keylane.pipelines.session import session_beside
from keylane.systems.jars import connector_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from keylane.pipelines.kafka.options import Running
    from keylane.pipelines.route import Options
    from keylane.systems.kafka_access import KafkaAccess

__all__ = ["session_with_login"]

LOGIN: Final = "java.security.auth.login.config"


@contextmanager
def session_with_login(given: Options, running: Running, access: KafkaAccess) -> Iterator[SparkSession]:
    """The session of a route from or into Kafka; its Java is logged in for as long as this is open."""
    has_jars = running.spark is not None or {"spark.jars", "spark.jars.packages"} & set(given.conf)
    connector = {} if has_jars else connector_settings(given.kafka.jars, given.kafka.packages, running.say)
    session = session_beside(running.spark, given.master, {**connector, **given.conf}, running.say)
    text = access.jaas()
    if text is None:
        yield session
        return
    java: Any = session.sparkContext._jvm  # noqa: SLF001
    system, logins = java.java.lang.System, java.javax.security.auth.login.Configuration
    before = system.getProperty(LOGIN)
    handle, name = tempfile.mkstemp(prefix="keylane-login-")
    try:
        os.write(handle, text.encode())
        os.close(handle)
        system.setProperty(LOGIN, name)
        logins.setConfiguration(None)
        yield session
    finally:
        Path(name).unlink(missing_ok=True)
        # Java keeps what it has read until it is told to read anew: the user's own login, or none.
        system.clearProperty(LOGIN) if before is None else system.setProperty(LOGIN, before)
        logins.setConfiguration(None)
