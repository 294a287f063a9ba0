"""Write down what Spark says of the files of ``test_same_as_spark``; run as a module."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from dtoss.errors import InputError
from pipelines.spark.session import spark_session
from tests.pipelines.local_joins.test_same_as_spark import FILES, by_spark, columns_of_log


def main() -> None:
    """Read each file with Spark, and write what it says beside this module."""
    spark, told = spark_session("local[2]"), {}
    for name, make in FILES.items():
        with tempfile.TemporaryDirectory() as folder:
            path, names = make(Path(folder))
            try:
                told[name] = columns_of_log(by_spark(spark, path, **names))
            except InputError:
                told[name] = None
    lines = [f"{json.dumps(name)}: {json.dumps(rows)}" for name, rows in told.items()]
    Path(__file__).with_suffix(".json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
