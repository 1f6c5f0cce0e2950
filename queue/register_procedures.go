package queue

import (
	"encoding/json"
	"time"

	"github.com/hipq/hipq/queue/job"
)

// What only the stored procedures read of a registration: they know no config, and a server may know no time zones.

// retrySettings are a retry policy, as they read it.
type retrySettings struct {
	Attempts int   `json:"attempts"`
	DelayUS  int64 `json:"delay_us"`
	// MaxDelayUS makes the delay grow exponentially; nil is a fixed one.
	MaxDelayUS *int64  `json:"max_delay_us,omitempty"`
	Jitter     float64 `json:"jitter"`
}

func retrySettingsOf(p job.RetryPolicy) retrySettings {
	s := retrySettings{Attempts: p.Attempts, DelayUS: p.Delay.Microseconds(), Jitter: p.Jitter}
	if p.Backoff == job.Exponential {
		s.MaxDelayUS = new(p.MaxDelay.Microseconds())
	}
	return s
}

func (s retrySettings) policy() job.RetryPolicy {
	p := job.RetryPolicy{Attempts: s.Attempts, Delay: time.Duration(s.DelayUS) * time.Microsecond, Backoff: job.Fixed, Jitter: s.Jitter}
	if s.MaxDelayUS != nil {
		p.Backoff, p.MaxDelay = job.Exponential, time.Duration(*s.MaxDelayUS)*time.Microsecond
	}
	return p
}

// typeSettings are what they need of a job type to settle its jobs.
type typeSettings struct {
	retrySettings
	Async        bool `json:"async,omitempty"`
	RetryHandler bool `json:"retry_handler,omitempty"`
}

// encodeTypeSettings is the text of the table.
func encodeTypeSettings(t job.Type) string {
	text, err := json.Marshal(typeSettings{retrySettingsOf(t.Retry), t.Async, t.RetryHandler})
	if err != nil { // a jitter that is no number, which no config has
		return job.None
	}
	return string(text)
}

// zoneYears is for how many years, from the current one on, the changes of a zone are registered.
const zoneYears = 3

// zoneChanges are the changes of a zone's clock from the beginning of a year on, each as when it happens and the offset from then
// on, both in seconds; the first is the offset at the beginning. Nil for a zone without an offset: so its registration changes
// once a year, and that of UTC never.
func zoneChanges(zone *time.Location, year int) [][2]int64 {
	if zone == nil {
		return nil
	}
	at, end := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(year+zoneYears, 1, 1, 0, 0, 0, 0, time.UTC)
	list := job.ZoneChanges(at.In(zone), end)
	if len(list) == 1 && list[0][1] == 0 {
		return nil
	}
	return list
}
