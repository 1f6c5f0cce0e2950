package queue

import "time"

// RememberTypes has a queue remember registered types for so long.
func RememberTypes(q *Queue, keep time.Duration) { q.known.keep = keep }
