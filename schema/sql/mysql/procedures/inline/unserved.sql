-- whether the queue needs hipq work: it has groups, a rate or shards
q.division > 1 OR COALESCE(JSON_CONTAINS_PATH(NULLIF(q.settings, 'NONE'), 'one', '$.throttle_groups', '$.rate'), FALSE)
