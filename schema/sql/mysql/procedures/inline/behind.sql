(run_rank > v_run_rank OR run_rank = v_run_rank AND scheduled_run_time > v_scheduled_run_time OR run_rank = v_run_rank AND scheduled_run_time = v_scheduled_run_time AND id > v_id)
