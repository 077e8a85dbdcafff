"""A session with Spark's Kafka connector, whose Java can log in to a cluster without the password in an option.

Options of Spark are shown in plans, logs and pages. A login's password is therefore in none of them: Java reads it from
a file, which only this user can read and which is removed afterwards. What may be set about a cluster: `access`.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from keylane.systems.jars import connector_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from keylane.spark.context import RunContext
    from keylane.systems.endpoint import StreamOptions
    from keylane.systems.kafka.access import KafkaAccess

LOGIN: Final = "java.security.auth.login.config"


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
        # Java keeps what it has read until it reloads: the user's own login, or none.
        system.clearProperty(LOGIN) if before is None else system.setProperty(LOGIN, before)
        logins.setConfiguration(None)
