package ui

import "time"

// Look sets how long a page looks for jobs, and how long while it has found none.
func (s *Server) Look(page, found time.Duration) { s.looks = looks{page, found} }

var Alone = alone
