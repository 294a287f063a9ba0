"""What Spark finds by itself where the wheel is installed: there this file is the package ``pyspark_dtoss``.

Spark imports each package called ``pyspark_...`` that it finds and takes its ``DefaultSource``.
"""

from __future__ import annotations

from pipelines.sql.data_source import DtossSource as DefaultSource

__all__ = ["DefaultSource"]
