"""The same in a Python model."""

from duckanon import Policy, anonymize_table


def model(dbt, session):  # noqa: ARG001 - dbt gives both
    """Give the released rows of the patients."""
    dbt.config(materialized="table")
    policy = Policy(
        identifiers=["patient_id"],
        quasi_identifiers=["age", "zip"],
        sensitive=["charge", "diagnosis"],
        k=5,
        t={"charge": 0.2},
        l={"diagnosis": 2},
    )
    return anonymize_table(dbt.ref("patients"), policy)
