-- what settles the jobs of a type: the queue's retry policy, and nothing else, for one that no config names
IF(JSON_VALID(t.settings), t.settings, COALESCE(JSON_EXTRACT(NULLIF(q.settings, 'NONE'), '$.default_retry'), '{default_policy}'))
