SET @hipq_windows = NULL; -- the caller could have set it
PREPARE hipq FROM @hipq_call;
EXECUTE hipq;
DEALLOCATE PREPARE hipq;
