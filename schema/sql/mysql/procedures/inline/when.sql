CALL {job}$span(p_options, 'in', v_in);
IF JSON_TYPE(JSON_EXTRACT(p_options, '$.at')) <> 'NULL' THEN
  CALL {job}$instant('at', JSON_UNQUOTE(JSON_EXTRACT(p_options, '$.at')), v_at);
END IF;
IF v_at IS NOT NULL AND v_in IS NOT NULL THEN
  CALL {job}$refuse(31002, 'options: at and in contradict each other');
END IF;
