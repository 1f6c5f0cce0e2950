package crash

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
)

const (
	// enqueuers is how many processes enqueue the same keys at once.
	enqueuers, enqueuersShort = 16, 6
	// manyKeys is more than a batch, so that some processes add their second batch while others add their first.
	manyKeys = 1000
)

// TestSameKeys enqueues the same keys from many processes at once, each in a random order. It does so on an idle queue,
// then to replace jobs, then while workers finish jobs and free keys. Each process must succeed silently, and the jobs
// they report as added must be there.
func TestSameKeys(t *testing.T) {
	each(t, plan{workers: 3, invent: (*book).named, invariants: invariants}, func(r *run) {
		ctx, stop := context.WithTimeout(r.t.Context(), *patienceFlag)
		defer stop()
		first, more := r.sameKeys(manyKeys), r.sameKeys(manyKeys/2)
		r.together(ctx, first, "keep")
		r.wantAdded(len(first))
		r.wantLive(first)

		replaced, rest := slices.Clone(first[:manyKeys/2]), first[manyKeys/2:]
		for i := range replaced {
			replaced[i].steps = []step{{Do: doDone, Print: 1}}
		}
		r.together(ctx, slices.Concat(replaced, more), "replace")
		keys := slices.Concat(replaced, more, rest)
		r.wantAdded(len(keys))
		r.wantLive(keys)

		end := r.begin(ctx)
		for r.book.rows < len(keys)+manyKeys/4 && ctx.Err() == nil && !r.t.Failed() {
			r.together(ctx, keys, "keep", "replace")
		}
		end()
		r.wantAdded(r.book.rows)
		r.judge()
	})
}

// enqueuers returns how many processes enqueue at once. Each waits for all others, so many take long on a busy machine.
func (r *run) enqueuers() int {
	if testing.Short() {
		return enqueuersShort
	}
	return enqueuers
}

// sameKeys makes up jobs of one queue, because a batch has only one.
func (r *run) sameKeys(n int) []spec {
	specs := make([]spec, n)
	for i := range specs {
		specs[i] = r.book.make(r.book)
		specs[i].queue, specs[i].steps = queues[0], []step{{Do: doDone}}
	}
	return specs
}

// together enqueues the same jobs in all processes, which take these values of --on-duplicate in turns.
func (r *run) together(ctx context.Context, specs []spec, onDuplicate ...string) {
	r.t.Helper()
	before := r.book.rows
	n := r.enqueuers()
	r.book.expect(n, specs)
	files := make([]string, n)
	for i := range files {
		order := slices.Clone(specs)
		r.book.rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		var err error
		if files[i], err = r.book.write(r.hipq, order); err != nil {
			r.t.Fatal(err)
		}
	}
	errs := make([]error, n)
	var all sync.WaitGroup
	for i, file := range files {
		all.Go(func() {
			// each process must account for every line
			errs[i] = r.book.enqueueFile(ctx, r.hipq, file, len(specs), "--on-duplicate", onDuplicate[i%len(onDuplicate)])
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		r.t.Error(err)
		return
	}
	added := r.book.rows - before
	r.t.Logf("%d processes enqueued %d keys (%v): %d added, %d duplicates", n, len(specs), onDuplicate, added, n*len(specs)-added)
}

// wantAdded checks that the processes, the queue and the activity agree on n added jobs.
func (r *run) wantAdded(n int) {
	r.t.Helper()
	var rows, told int
	err := r.db.QueryRow("SELECT COUNT(*) FROM " + jobsTable(queues[0])).Scan(&rows)
	err = errors.Join(err, r.db.QueryRow("SELECT COUNT(*) FROM "+activityTable+" WHERE state = 'added'").Scan(&told))
	must(r.t, err)
	if r.book.rows != n || rows != n || told != n {
		r.t.Errorf("the processes added %d, there are %d jobs and %d of them in the activity, want %d", r.book.rows, rows, told, n)
	}
}

// wantLive checks that exactly these jobs are live, once each, with the data that was enqueued last.
func (r *run) wantLive(specs []spec) {
	r.t.Helper()
	want := map[string]string{}
	for _, s := range specs {
		want[s.key] = s.data()
	}
	err := r.db.each("SELECT job_key, job_data FROM "+jobsTable(queues[0])+" WHERE state <> 'final'", nil, func(rows *sql.Rows) error {
		var key, data string
		err := rows.Scan(&key, &data)
		dbtest.Same(r.t, want[key], data, "%s is live with", key)
		delete(want, key)
		return err
	})
	dbtest.Ensure(r.t, err == nil && len(want) == 0, "%d are missing (%v)", len(want), err)
}
