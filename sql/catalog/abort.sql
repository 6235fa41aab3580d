-- catalog: abort
-- does: makes of an open transaction one that cannot be committed
-- reads: nothing
-- returns: an error, always
SELECT error('a statement of this transaction was stopped half-way')
