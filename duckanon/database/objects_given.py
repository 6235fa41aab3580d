"""Objects of Python that are no tables but are often given as one: what to give instead."""

from __future__ import annotations

_INSTEAD = {
    "LazyFrame": "give its rows, .collect()",
    "GroupBy": "give the DataFrame that it groups",
    "LazyGroupBy": "give the rows of the frame that it groups, .collect()",
    "Series": "give a DataFrame, .to_frame()",
    "Index": "give a DataFrame, .to_frame()",
    "ndarray": "give a DataFrame, pandas.DataFrame(array, columns=[...])",
    "list": "give pyarrow.Table.from_pylist(rows) for rows as dicts",
    "dict": "give pyarrow.table(columns)",
    "Array": "give a table, pyarrow.table({name: array})",
    "ChunkedArray": "give a table, pyarrow.table({name: array})",
    "FileSystemDataset": "give its rows, .to_table()",
    "ParquetFile": "give its rows, .read()",
    "str": "a file or a table of a database is named to duckanon.anonymize(con, ...)",
    "PurePath": "a file is named to duckanon.anonymize(con, ...)",
    "Connection": "name a table of it to duckanon.anonymize(con, ...)",
    "DuckDBPyConnection": "give its rows, .to_arrow_table(), or name a table to duckanon.anonymize(con, ...)",
    "type": "give an object of this class",
}
"""What to give instead of an object, by the name of a class of the object."""

_OF_SPARK = "duckanon.spark takes a DataFrame of Spark; or give its rows, .toArrow()"


def instead(value: object) -> str | None:
    """What to give instead of an object that is no table; None if nothing is known of the object."""
    if type(value).__module__.startswith("pyspark."):
        return _OF_SPARK
    return next((_INSTEAD[one.__name__] for one in type(value).__mro__ if one.__name__ in _INSTEAD), None)
