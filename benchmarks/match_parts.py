"""What each part of a running match costs: the processor's time of its tasks, shared out by samples of their stacks.

    with sampled(spark) as parts:
        ...
    parts.seconds      {"read": 1.2, "parse": 0.4, ...}

The seconds of tasks are Spark's own sums; how they divide is sampled every 5 ms (`sampler/bench/Sampler.java`), in a
run of its own, because sampling costs too. What is not in tasks is counted by Java: its compiler,
and its collector by the names of threads; the rest is Spark's driver. Python, which writes, is this process.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from keylane.spark.context import java_process
from keylane.spark.jvm import java_class

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

#: Beginnings of class names, and the part that they are; the first that fits, from the innermost call on.
RULES: Final = {
    "keylane.match.PlainJson": "parse",
    "keylane.blocks.SparkColumns": "parse",
    "keylane.match.Cells": "cell",
    "keylane.match.LaneTable": "cell",
    "com.uber.h3core": "cell",
    "keylane.match.Answer": "answer",
    "keylane.match.Cover": "answer",
    "keylane.match.Merge": "answer",
    "keylane.match.Homes": "state",
    "keylane.match.Lanes": "state",
    "keylane.blocks.BlockStep": "state",
    "org.rocksdb": "state",
    "org.apache.spark.sql.execution.streaming.state": "state",
    "org.apache.spark.sql.execution.arrow": "write",
    "keylane.match.Pack": "read",
    "keylane.topics": "read",
    "org.apache.kafka": "read",
}
#: What is between the steps: exchanges, sorts, encoders, and the tasks themselves.
OTHER: Final = "exchange"
PARTS: Final = ("read", "parse", "cell", OTHER, "state", "answer", "write", "driver", "compiler", "collector")


@dataclass(slots=True)
class Parts:
    """Seconds of the processor by part."""

    seconds: dict[str, float] = field(default_factory=dict)


@contextmanager
def sampled(spark: SparkSession) -> Iterator[Parts]:
    """Sample what runs until the block ends; the parts are there then."""
    context: Any = spark.sparkContext
    rules = context._gateway.new_array(context._jvm.java.lang.String, 2 * len(RULES))
    for at, text in enumerate(text for rule in RULES.items() for text in rule):
        rules[at] = text
    loaded = java_class(spark, Path(__file__).parent / "sampler", "bench.Sampler")
    arguments = context._gateway.new_array(context._jvm.java.lang.Object, 1)
    arguments[0] = rules
    sampler = loaded.getConstructors()[0].newInstance(arguments)
    tasks, before, python, compiling = task_seconds(spark), _threads(spark), _python(), _compiling(spark)
    sampler.start()
    found = Parts()
    yield found
    seen = {str(part) or OTHER: int(many) for part, many in dict(sampler.end()).items()}
    in_tasks = task_seconds(spark) - tasks
    threads = {name: seconds - before[name] for name, seconds in _threads(spark).items()}
    threads["compiler"] = _compiling(spark) - compiling
    found.seconds = {part: in_tasks * many / sum(seen.values()) for part, many in seen.items()}
    found.seconds["write"] = found.seconds.get("write", 0.0) + _python() - python
    found.seconds |= {name: threads[name] for name in ("compiler", "collector")}
    found.seconds["driver"] = (
        threads["all"] - threads["sampler"] - threads["compiler"] - threads["collector"] - in_tasks
    )


def task_seconds(spark: SparkSession) -> float:
    """Seconds of the processor that all tasks of a session took until now."""
    context: Any = spark.sparkContext
    none = context._gateway.new_array(context._jvm.double, 0)
    lists = [context._jvm.java.util.ArrayList() for _ in range(2)]
    stages = context._jsc.sc().statusStore().stageList(lists[0], False, False, none, lists[1])
    return sum(stages.apply(at).executorCpuTime() / 1e9 for at in range(stages.size()))


def _threads(spark: SparkSession) -> dict[str, float]:
    """Seconds of Java's threads by kind; `all` are of the whole process, with threads that have ended."""
    found: dict[str, float] = dict.fromkeys(("all", "collector", "sampler", "others"), 0.0)
    folder = Path(f"/proc/{java_process(spark)}")
    for path in (folder / "stat", *folder.glob("task/[0-9]*/stat")):
        try:
            text = path.read_text(encoding="ascii", errors="replace")
        except OSError:  # a thread that has just ended
            continue
        name, fields = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
        kind = "all" if path.parent == folder else _kind(name)
        found[kind] += sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
    return found


def _kind(name: str) -> str:
    if name.startswith(("GC ", "G1 ")):
        return "collector"
    # Whoever samples stops all threads, which is the work of the other.
    return "sampler" if name in {"sampler", "VM Thread"} else "others"


def _compiling(spark: SparkSession) -> float:
    """Seconds of Java's compilers, by its own count: their threads come and go."""
    java: Any = spark.sparkContext._jvm
    return float(java.java.lang.management.ManagementFactory.getCompilationMXBean().getTotalCompilationTime()) / 1000


def _python() -> float:
    return sum(os.times()[:2])
