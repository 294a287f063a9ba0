"""Write down the hash of what Spark says of the files of ``test_json_rows``; run as a module."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from pipelines.spark.session import spark_session
from tests.pipelines.rows.test_json_rows import TOLD, alike_in_spark, all_files, told


def main() -> None:
    """Read each file with Spark, and write what it says beside this module, if we say it too."""
    spark = spark_session("local[2]")
    with tempfile.TemporaryDirectory() as folder:
        lines = {name: told(*alike_in_spark(spark, Path(folder), name, *rest)) for name, *rest in all_files()}
    TOLD.write_text(json.dumps(lines, indent=0) + "\n")


if __name__ == "__main__":
    main()
