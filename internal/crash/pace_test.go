package crash

import (
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

const (
	// window is how long a pace is measured. windows is how often, because the machine may be busy with something else.
	window, windows = 5 * time.Second, 3
	// keptPace is the part of their pace that the others must keep. It is low because other tests may use the machine.
	keptPace = 0.5
	// soon limits the delay of results of undisturbed jobs.
	soon = 8 * time.Second
)

// span is a time by the database's clock.
type span struct{ from, to time.Time }

// look waits for one window.
func (s *stage) look() span {
	from := s.now()
	time.Sleep(window)
	to := s.now()
	time.Sleep(breath / 10) // a commit follows the time in its activity entry
	return span{from, to}
}

// wantPace fails unless the others keep their pace, in all queues except but.
func (s *stage) wantPace(when string, before span, but string) {
	s.t.Helper()
	for n := 1; ; n++ {
		now := s.look()
		worst := 1.0
		for _, q := range s.apart() {
			if q == but {
				continue
			}
			was, is := s.pace(before, q), s.pace(now, q)
			worst = min(worst, is/was)
			s.t.Logf("%s the others finish %.1f jobs/s of %s, before %.1f: %.2f", when, is, q, was, is/was)
		}
		if worst >= keptPace {
			return
		}
		if n == windows {
			s.t.Errorf("%s the others don't keep their pace; the server meanwhile:%s", when, s.meanwhile())
			return
		}
	}
}

// apart returns the queues that each must keep their pace. Only queues with a throttle limit have separate turns;
// otherwise all share the slots and are measured together.
func (s *stage) apart() []string {
	if s.limit > 0 {
		return queues
	}
	return []string{everything}
}

// finishedByOthers selects the others' finished jobs in the activity, which has them once their results are written.
const finishedByOthers = " FROM " + activityTable + " WHERE kind = 'job' AND state = 'finished' AND worker_id <> ?"

// pace is how many jobs of a queue, or of everything, the others finished in a second.
func (s *stage) pace(in span, of string) float64 {
	s.t.Helper()
	n := 0
	err := s.db.QueryRow("SELECT COUNT(*)"+finishedByOthers+" AND ? IN (queue, ?) AND at >= ? AND at < ?", s.lost, of, everything,
		in.from.UTC().Format(layout), in.to.UTC().Format(layout)).Scan(&n)
	must(s.t, err)
	return float64(n) / in.to.Sub(in.from).Seconds()
}

// wantSoon fails if results of the others' undisturbed jobs were written late.
func (s *stage) wantSoon(disturbed time.Time) {
	s.t.Helper()
	query := "SELECT f.queue, f.job_id, f.job_key, s.at, f.at, f.worker_id, TIMESTAMPDIFF(MICROSECOND, s.at, f.at) / 1000000 - f.run_ms / 1000 AS late FROM " +
		activityTable + " f JOIN " + activityTable + " s ON s.state = 'starting' AND s.queue = f.queue AND s.job_id = f.job_id AND s.attempt = f.attempt" +
		" WHERE f.kind = 'job' AND f.state = 'finished' AND f.worker_id <> ? AND f.at >= ? HAVING late > 1 ORDER BY late DESC"
	var list []string
	worst := 0.0
	err := s.db.each(query, []any{s.lost, disturbed.UTC().Format(layout)}, func(rows *sql.Rows) error {
		var j jobID
		var key string
		var late float64
		var started, settled, worker string
		err := rows.Scan(&j.queue, &j.id, &key, &started, &settled, &worker, &late)
		_, touched := s.touched[j.id]
		if !touched || j.queue != queues[0] {
			worst = max(worst, late)
			key += fmt.Sprintf(" of %s, untouched, started %s, settled %s", worker, started, settled)
		}
		list = append(list, fmt.Sprintf("%.1f s %s, %s", late, j, key))
		return err
	})
	must(s.t, err)
	if s.t.Logf("late are %d: %s", len(list), strings.Join(list, "; ")); worst > soon.Seconds() {
		s.t.Errorf("a result that nobody touched came %.1f s late", worst)
	}
}

// meanwhile lists the connections with their transactions, oldest first, with state, locks and statement.
func (s *stage) meanwhile() (text string) {
	s.t.Helper()
	query := "SELECT CONCAT_WS(' ', TIMESTAMPDIFF(SECOND, t.trx_started, NOW()), 's', t.trx_state, p.id, p.command, p.time, t.trx_rows_locked, 'rows:', LEFT(COALESCE(p.info, ''), 3000))" +
		" FROM information_schema.processlist p LEFT JOIN information_schema.innodb_trx t ON p.id = t.trx_mysql_thread_id WHERE p.db = DATABASE() ORDER BY t.trx_started"
	err := s.db.each(query, nil, func(rows *sql.Rows) error {
		var line string
		err := rows.Scan(&line)
		text += "\n" + line
		return err
	})
	dbtest.Ensure(s.t, err == nil, "%v", err)
	return text
}
