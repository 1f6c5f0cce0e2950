package job

import "time"

// Rate bounds how many jobs of a queue are started in any stretch of time, over all workers. The zero Rate doesn't.
type Rate struct {
	Starts int           `json:"starts"`
	Per    time.Duration `json:"per"`
}
