"""The same policies, kernels and audits on Apache Spark, for data that outgrow one machine.

`pipeline` calls the stages in the order of a release in DuckDB: `stage` binds the policy and writes the
records aside, `embed` takes moments and domains, `tiles` deals records to tiles, `partition` labels records,
`repair` leaves the worst classes out and merges classes across tiles, `recode` writes the values of classes,
`audits` audits the written files, and `publish` gives the folder its name.
"""

from duckanon.spark.session import check_pyspark

check_pyspark()

from duckanon.spark.audits import audit  # noqa: E402
from duckanon.spark.pipeline import SparkRelease, anonymize  # noqa: E402 - a missing package is an error before

__all__ = ["SparkRelease", "anonymize", "audit"]
