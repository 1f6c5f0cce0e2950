package crash

import (
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

// record is all that is known after a run.
type record struct {
	plan  plan
	book  *book
	watch *watch
	gauge *gauge
	fleet *fleet
	// answers are the accepted answers.
	answers map[answered]string

	jobs map[jobID]row
	// rounds counts the rounds of workers in queues with a throttle limit.
	rounds int
	// history is each job's activity in the order of its writes.
	history map[jobID][]event
	// ledger has all entries in the order of their writes.
	ledger []entry
	// tries has the ledger's entries by attempt. order has all entries of a job.
	tries map[jobID]map[int][]entry
	order map[jobID][]entry
	// parts sums up the shards of each queue.
	parts map[string]parts
	// workers has the states of the workers by id. deaths counts the errors of each in the activity.
	workers map[string]string
	deaths  map[string]int
	// ahead is how far the database's clock is ahead of the ledger's. tolerance is the error of ahead.
	ahead, tolerance time.Duration
	// left are the remaining processes and transactions.
	left []string
	// told are the jobs whose stories the current invariant has printed.
	told map[jobID]bool
}

// event is an entry of a job's activity.
type event struct {
	id      int64
	at      time.Time
	state   string
	attempt int
	error   string
}

// outcome reports whether the event ends an attempt.
func (e event) outcome() bool {
	return e.state == "finished" || e.state == "error" || e.state == "failed"
}

func (r *run) record() (*record, error) {
	c := &record{
		plan: r.plan, book: r.book, watch: r.watch, gauge: r.gauge, fleet: r.fleet, answers: r.answers.given,
		jobs: map[jobID]row{}, history: map[jobID][]event{}, tries: map[jobID]map[int][]entry{}, order: map[jobID][]entry{},
		workers: map[string]string{}, deaths: map[string]int{}, parts: map[string]parts{},
	}
	var err error
	if c.ahead, c.tolerance, err = r.db.clock(); err != nil {
		return nil, err
	}
	if c.rounds, err = r.db.rounds(); err != nil {
		return nil, err
	}
	for _, q := range queues {
		jobs, err := r.db.jobs(q, "")
		if err == nil {
			c.parts[q], err = r.db.parts(q)
		}
		if err != nil {
			return nil, err
		}
		for _, j := range jobs {
			c.jobs[j.jobID] = j
		}
	}
	if err := c.readActivity(r.db); err != nil {
		return nil, err
	}
	if c.ledger, err = readLedger(r.hipq.ledger); err != nil {
		return nil, err
	}
	for _, e := range c.ledger {
		if c.tries[e.jobID] == nil {
			c.tries[e.jobID] = map[int][]entry{}
		}
		c.tries[e.jobID][e.attempt] = append(c.tries[e.jobID][e.attempt], e)
		c.order[e.jobID] = append(c.order[e.jobID], e)
	}
	err = r.db.each("SELECT id, state FROM "+workersTable, nil, func(rows *sql.Rows) error {
		var id, state string
		err := rows.Scan(&id, &state)
		c.workers[id] = state
		return err
	})
	if err != nil {
		return nil, err
	}
	c.left, err = r.leftovers()
	return c, err
}

func (c *record) readActivity(db *database) error {
	err := db.each("SELECT id, at, state, queue, job_id, attempt, error FROM "+activityTable+" WHERE kind = 'job' ORDER BY id", nil, func(rows *sql.Rows) error {
		var e event
		var j jobID
		var at string
		if err := rows.Scan(&e.id, &at, &e.state, &j.queue, &j.id, &e.attempt, &e.error); err != nil {
			return err
		}
		var err error
		e.at, err = time.Parse(layout, at)
		c.history[j] = append(c.history[j], e)
		return err
	})
	if err != nil {
		return err
	}
	return db.each("SELECT worker_id FROM "+activityTable+" WHERE kind = 'worker' AND state = 'error'", nil, func(rows *sql.Rows) error {
		var id string
		err := rows.Scan(&id)
		c.deaths[id]++
		return err
	})
}

// leftovers returns the remaining processes and transactions. It waits a moment for those that are about to end.
func (r *run) leftovers() (left []string, err error) {
	for limit := time.Now().Add(5 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		left = slices.Sorted(maps.Values(r.hipq.processes()))
		if !r.db.sqlite {
			open, err := r.db.transactions()
			if err != nil {
				return nil, err
			}
			for id := range open {
				left = append(left, "transaction "+id)
			}
		} else if busy, err := r.db.fileBusy(time.Second); err != nil {
			return nil, err
		} else if busy {
			left = append(left, "a transaction that holds the file")
		}
		if len(left) == 0 || time.Now().After(limit) {
			return left, nil
		}
	}
}

// judge checks every invariant and prints its summary.
func (r *run) judge() {
	c := dbtest.Must(r.record())(r.t)
	for _, i := range r.invariants {
		c.told = map[jobID]bool{}
		violations, checked := i.check(c)
		r.t.Logf("%-3s %s: %d violations (%s)", i.name, i.says, len(violations), checked)
		for n, v := range violations {
			if n == 10 {
				r.t.Errorf("%s: and %d more", i.name, len(violations)-n)
				break
			}
			r.t.Errorf("%s: %s", i.name, v)
		}
	}
	if r.t.Failed() {
		r.t.Logf("run again with -crash.seed %d; the schedule of the processes is not in the seed", r.seed)
	}
}

// story returns all that is known of a job, to explain a violation. It does so once, because a job with many attempts
// has a long story and many violations.
func (c *record) story(id jobID) string {
	if c.told[id] {
		return fmt.Sprintf("%s, as above", id)
	}
	c.told[id] = true
	s := fmt.Sprintf("%+v\n\tsteps %v", c.jobs[id], c.book.spec(c.jobs[id].name()).steps)
	for _, e := range c.history[id] {
		s += fmt.Sprintf("\n\tactivity %d %s %s/%d %s", e.id, e.at.Format("15:04:05.000"), e.state, e.attempt, e.error)
	}
	for _, e := range c.order[id] {
		s += fmt.Sprintf("\n\tledger %s %s/%d token %s pid %d", e.at.Add(c.ahead).Format("15:04:05.000"), e.event, e.attempt, e.token, e.pid)
	}
	return s
}
