package monitor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/engine"
)

// hourOfType is what happened in an hour.
type hourOfType struct {
	finished, failed int64
	waitMS, runMS    int64
}

func (h hourOfType) counts() Counts {
	started := h.finished + h.failed
	c := Counts{Added: started, Started: started, Finished: h.finished, Failed: h.failed}
	for _, t := range []struct {
		times *Times
		ms    int64
	}{{&c.Wait, h.waitMS}, {&c.Run, h.runMS}} {
		for n := range started {
			t.times.put(t.ms + n%20)
		}
	}
	return c
}

func TestTrends(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	last := func(hours int) func(int) bool { return func(n int) bool { return n < hours } }
	types := map[string]struct {
		usual, bad hourOfType
		// when reports whether the hour n hours before the last was bad; nil is never
		when func(n int) bool
		want string
	}{
		"steady":         {usual: hourOfType{96, 4, 50, 500}},
		"failing":        {hourOfType{193, 7, 50, 500}, hourOfType{176, 24, 50, 500}, last(3), "6h errors of mail/failing 3.5 % → 12 %, since 15:00 UTC"},
		"few":            {hourOfType{3, 0, 50, 500}, hourOfType{0, 3, 50, 500}, last(3), ""},
		"a little worse": {hourOfType{9550, 450, 50, 500}, hourOfType{9400, 600, 50, 500}, last(30), ""},
		"night":          {hourOfType{200, 0, 50, 500}, hourOfType{3, 0, 50, 500}, func(n int) bool { return n%24 < 9 }, ""},
		"collapsing": {
			hourOfType{100, 0, 50, 500},
			hourOfType{2, 0, 50, 500},
			last(5),
			"6h finished jobs of mail/collapsing 100 → 2 an hour, since 13:00 UTC; fewer were added too",
		},
		"stopped": {
			hourOfType{20, 0, 50, 500},
			hourOfType{},
			last(20),
			"1d finished jobs of mail/stopped 20 → 0 an hour, since 22:00 UTC; fewer were added too",
		},
		"waiting": {hourOfType{100, 0, 3_000, 500}, hourOfType{100, 0, 40_000, 500}, last(2), "6h wait p95 of mail/waiting 3 s → 40 s, since 16:00 UTC"},
		"running": { // some hours are good
			hourOfType{100, 0, 50, 500},
			hourOfType{100, 0, 50, 1_500},
			func(n int) bool { return n < 8 && n%3 > 0 },
			"12h run p95 of mail/running 519 ms → 1.5 s, since 10:00 UTC",
		},
		"running 20 ms longer": {hourOfType{100, 0, 50, 5}, hourOfType{100, 0, 50, 25}, last(8), ""},
		"each week":            {hourOfType{100, 0, 50, 500}, hourOfType{50, 50, 50_000, 50_000}, func(n int) bool { return n%168 < 3 }, ""},
		"over": {
			hourOfType{99, 1, 50, 500},
			hourOfType{50, 50, 50, 500},
			func(n int) bool { return n >= 3 && n < 5 },
			"6h errors of mail/over 1 % → 50 %, 13:00 to 15:00 UTC",
		},
		"over for long": {
			hourOfType{99, 1, 50, 500}, hourOfType{80, 20, 50, 500}, last(60), "1w errors of mail/over for long 1 % → 20 %, since 4 Mar 06:00 UTC",
		},
	}
	want := map[string]string{}
	for name, c := range types {
		if c.want != "" {
			want[name] = c.want
		}
	}
	each(t, func(t *testing.T, m *Monitor) {
		hour := time.Date(2025, 3, 6, 17, 0, 0, 0, time.UTC)
		dbtest.OK(t, m.db.SQL.Tx(t.Context(), func(tx *engine.Tx) error {
			for n := range 336 {
				counted := newMetrics(hour.Add(time.Duration(-n) * time.Hour))
				for name, c := range types {
					hour := c.usual
					if c.when != nil && c.when(n) {
						hour = c.bad
					}
					counted.row(key{"mail", name}).Counts = hour.counts()
				}
				for i := range 30 { // by chance
					failed := int64(0)
					for range 60 {
						if r.IntN(100) < 2+i/3 {
							failed++
						}
					}
					slow := r.Int64N(20_000)
					counted.row(key{"mail", fmt.Sprint("chance ", i)}).Counts = hourOfType{60 - failed, failed, slow, slow}.counts()
				}
				if err := m.write(context.Background(), tx, counted, AggregateOptions{}); err != nil {
					return err
				}
			}
			return nil
		}))
		report := func() []Trend {
			report := dbtest.Must(m.Report(t.Context(), hour))(t)
			return report.Trends
		}
		got, trends := map[string]string{}, report()
		for _, trend := range trends {
			if strings.HasPrefix(trend.JobType, "chance") && trend.What != errorShare.what {
				continue // its times depend on each other
			}
			got[trend.JobType] += trend.Window + " " + trend.Text
		}
		dbtest.Same(t, cmp.Diff(want, got), "", "(-want +got)")
		for _, trend := range trends {
			if trend.JobType == "over" && (trend.Until == nil || !trend.Until.Equal(hour.Add(-2*time.Hour)) || !trend.Since.Equal(hour.Add(-4*time.Hour))) {
				t.Errorf("%+v", trend)
			}
		}

		// A third of the hours of each earlier window is missing.
		exec(t, m.db, "DELETE FROM "+m.db.Hours()+" WHERE hour < ? AND (hour < ? OR hour LIKE '% 10:%' OR hour LIKE '% 09:%')",
			engine.At(hour.Add(-5*time.Hour)), engine.At(hour.Add(-6*24*time.Hour)))
		for _, trend := range report() {
			dbtest.Ensure(t, trend.Window != "6h" && trend.Window != "1w", "compared with too little: %+v", trend)
		}
	})
}

func TestTrendWords(t *testing.T) {
	at := time.Date(2025, 3, 6, 17, 0, 0, 0, time.UTC)
	zone := time.FixedZone("IST", 5*3600+1800)
	for _, c := range []struct {
		trend Trend
		want  string
	}{
		{Trend{What: "errors", From: 0.041, To: 0.1204}, "errors of emails/send 4.1 % → 12 %, since 22:30 IST"},
		{Trend{What: "errors", From: 0, To: 0.0996}, "errors of emails/send 0 % → 10 %, since 22:30 IST"},
		{Trend{What: "wait_p95", From: 1000, To: 9_960}, "wait p95 of emails/send 1 s → 10 s, since 22:30 IST"},
		{Trend{What: "run_p95", From: 12, To: 3_599_700}, "run p95 of emails/send 12 ms → 1 h, since 22:30 IST"},
		{Trend{What: "throughput", From: 1200, To: 0.33, fewerAdded: true}, "finished jobs of emails/send 1200 → 0.33 an hour, since 22:30 IST; fewer were added too"},
	} {
		c.trend.Queue, c.trend.JobType, c.trend.Since, c.trend.until = "emails", "send", at, at.Add(time.Hour)
		dbtest.Same(t, c.trend.Words(zone), c.want)
	}
}
