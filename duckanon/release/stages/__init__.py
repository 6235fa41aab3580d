"""The stages of a release, one module each: stage, embed, bucket, partition, recode, audit, publish.

Data goes one way. Every stage is a function ``(con, result of the stage before, policy)`` that leaves
temporary relations behind and returns a frozen dataclass which names them.
"""
