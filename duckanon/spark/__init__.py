"""The same policies, kernels and audits on Apache Spark, for data that outgrow one machine.

`pipeline` goes from stage to stage as that for DuckDB does: `columns` binds the policy, `stage` writes the
records aside, `embed` takes moments and domains, `tiles` deals records to tiles, `partition` labels them,
`repair` merges across tiles, `recode` makes the values of classes, `audits` looks at what was written, and
`publish` gives it its name.
"""

from duckanon.spark.session import check_pyspark

check_pyspark()

from duckanon.spark.audits import audit  # noqa: E402
from duckanon.spark.pipeline import SparkRelease, anonymize  # noqa: E402 - what is missing is said before

__all__ = ["SparkRelease", "anonymize", "audit"]
