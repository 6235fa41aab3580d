-- catalog: abort
-- question: How does an open transaction become one that cannot be committed?
SELECT error('a statement of this transaction was stopped half-way')
