package bench

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/schema"
)

// engines runs a benchmark on each engine. hipq and the floor have separate databases on the same server or disk.
func engines(b *testing.B, f func(b *testing.B, db *schema.DB, bare floor)) {
	b.Run("sqlite", func(b *testing.B) {
		bare := dbtest.Must(openSQLiteFloor(b.Context(), dbtest.SQLite(b)))(b)
		closeAfter(b, bare.close)
		f(b, dbtest.Open(b, "sqlite", dbtest.SQLite(b)), bare)
	})
	b.Run("mysql", func(b *testing.B) {
		bare := dbtest.Must(openMySQLFloor(b.Context(), dbtest.MySQL(b)))(b)
		closeAfter(b, bare.close)
		f(b, dbtest.Open(b, "mysql", dbtest.MySQL(b)), bare)
	})
}

func closeAfter(b *testing.B, f func() error) {
	b.Cleanup(func() {
		err := f()
		dbtest.Ensure(b, err == nil, "%v", err)
	})
}

// side is one of the sides of a comparison.
type side struct {
	name string
	// jobs is how many jobs run does.
	jobs int
	// ready, if not nil, comes before run, and check after it. Neither is timed.
	ready, check func(context.Context) error
	run          func(context.Context) error
}

// rates are each side's jobs per second, by round.
type rates map[string][]float64

// rounds of a comparison: a busy machine's figures vary, but their median is close.
const rounds = 3

// compare runs the sides in turn, so that noise hits them equally. Each round begins with a different side, because a
// side's flushes and purges burden the next.
func compare(b *testing.B, sides ...side) rates {
	b.Helper()
	r := rates{}
	for round := range rounds {
		for i := range sides {
			s := sides[(round+i)%len(sides)]
			untimed(b, s, s.ready)
			began := time.Now()
			err := s.run(b.Context())
			dbtest.Require(b, err == nil, "%s: %v", s.name, err)
			r[s.name] = append(r[s.name], float64(s.jobs)/time.Since(began).Seconds())
			untimed(b, s, s.check)
		}
	}
	b.ReportMetric(0, "ns/op") // over all rounds of all sides, it means nothing
	for _, s := range sides {
		b.ReportMetric(median(r[s.name]), s.name+"/s")
	}
	return r
}

func untimed(b *testing.B, s side, f func(context.Context) error) {
	b.Helper()
	if f == nil {
		return
	}
	err := f(b.Context())
	dbtest.Ensure(b, err == nil, "%s: %v", s.name, err)
}

// report reports the median ratio of two sides' rates within a round, as name.
func (r rates) report(b *testing.B, name, side, other string) {
	parts := make([]float64, rounds)
	for i := range parts {
		parts[i] = r[side][i] / r[other][i]
	}
	b.ReportMetric(median(parts), name)
}

func median[T float64 | time.Duration](list []T) T {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// open is Open in a benchmark.
func open(b *testing.B, db *schema.DB, o queue.Options) *Queue {
	b.Helper()
	return dbtest.Must(Open(b.Context(), db, o))(b)
}
