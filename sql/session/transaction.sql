-- session: transaction
-- question: Which number has the transaction of this statement? In autocommit the next statement has another.
-- reads: the session
-- returns: one row: transaction_number
SELECT txid_current() AS transaction_number
