package proof

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

// acts are commands to jobs of a queue of their own, on which only they act, and what was seen of all jobs. So each command
// that was acknowledged must have had its effect, and what has ended must stay so.
type acts struct {
	r    *round
	list []*act

	// ended says how jobs have ended and with which attempt, as was read and can't be lost any more.
	ended map[id]string
}

// act is a job and what a client did to it.
type act struct {
	verb, jobType, key, id string
	// there is whether the client was told that the job is, done is whether it was told that the act is done.
	there, done told
	tried       bool
}

const actsQueue = "acts"

// acting adds the queue of the acts to the config.
func (r *round) acting() *acts {
	handler := fmt.Sprintf("handler: {exec: [%q, %q]}", r.bin.handler, r.ledger)
	r.extend("  - name: %s\n    job_types:\n      - {name: plain, %s}\n"+
		"      - {name: once, retry: {attempts: 1}, %s}\n      - {name: sent, async: true, timeout: 1h, %s}\n", actsQueue, handler, handler, handler)
	if r.driver == "mysql" {
		dbtest.Must(r.db.Exec("CREATE TABLE witness (n INT AUTO_INCREMENT PRIMARY KEY)"))(r.t)
	}
	return &acts{r: r, ended: map[id]string{}}
}

// extend adds lines to the config, and has the database take them.
func (r *round) extend(format string, args ...any) {
	f := dbtest.Must(os.OpenFile(r.config, os.O_APPEND|os.O_WRONLY, 0))(r.t)
	_, err := fmt.Fprintf(f, format, args...)
	dbtest.OK(r.t, errors.Join(err, f.Close()))
	dbtest.Must(r.run("init", "--yes"))(r.t)
}

// begin lets one client act and another watch. end waits until the acts have had their effects.
func (a *acts) begin(ctx context.Context) (end func()) {
	ctx, stop := context.WithCancel(ctx)
	var crew sync.WaitGroup
	crew.Go(func() { a.operate(ctx) })
	crew.Go(func() { a.watch(ctx) })
	return func() {
		stop()
		crew.Wait()
		query := "SELECT COUNT(*) FROM proof_" + actsQueue + " WHERE state <> 'final' AND status NOT IN ('scheduled', 'awaiting')"
		for limit, n := time.Now().Add(time.Minute), 1; n > 0 && time.Now().Before(limit); time.Sleep(100 * time.Millisecond) {
			_ = a.r.db.QueryRow(query).Scan(&n)
		}
	}
}

// operate acts until ctx ends. First it goes on with what it could not do before.
func (a *acts) operate(ctx context.Context) {
	for _, one := range a.list {
		if one.there == accepted && !one.tried && ctx.Err() == nil {
			a.do(ctx, one)
		}
	}
	for n := len(a.list); ctx.Err() == nil; n++ {
		one := &act{key: fmt.Sprintf("act-%06d", n), verb: []string{"cancel", "retry", "complete", "fail", "reschedule"}[n%5], jobType: "plain"}
		how, do := []string{"--in", "1h"}, "done"
		switch one.verb {
		case "retry":
			one.jobType, how, do = "once", nil, "fatal"
		case "complete", "fail":
			one.jobType, how = "sent", nil
		}
		a.list = append(a.list, one)
		said, err := a.r.run(append([]string{"enqueue", actsQueue, one.jobType, "--key", one.key, "--data", ask{Steps: []step{{Do: do}}}.data()}, how...)...)
		one.id = strings.TrimSpace(said)
		if one.there = a.r.heard(err); one.there == accepted {
			a.do(ctx, one)
		}
	}
}

// do acts on a job if it gets ready for that soon.
func (a *acts) do(ctx context.Context, one *act) {
	args, ready := []string{one.verb, actsQueue, one.id}, true
	switch one.verb {
	case "reschedule":
		args = append(args, "--in", "0s")
	case "retry":
		ready = a.await(ctx, one, "state = 'final'")
	case "complete", "fail":
		args = []string{one.verb, actsQueue, one.jobType, one.key}
		ready = a.await(ctx, one, "status = 'awaiting'")
	}
	if ctx.Err() == nil && ready {
		one.tried = true
		_, err := a.r.run(args...)
		one.done = a.r.heard(err)
	}
}

// await waits a moment until the act's job is so far.
func (a *acts) await(ctx context.Context, one *act, condition string) bool {
	n, query := 0, "SELECT COUNT(*) FROM proof_"+actsQueue+" WHERE id = "+one.id+" AND "+condition
	for limit := time.Now().Add(2 * time.Second); n == 0 && ctx.Err() == nil && time.Now().Before(limit); time.Sleep(50 * time.Millisecond) {
		_ = a.r.db.QueryRow(query).Scan(&n)
	}
	return n == 1
}

// watch reads until ctx ends which jobs have ended. A server may show what it hasn't made safe yet; a later commit of the
// reader's own does that.
func (a *acts) watch(ctx context.Context) {
	for ; ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
		ended, err := a.read()
		if err == nil && a.r.driver == "mysql" {
			_, err = a.r.db.Exec("INSERT INTO witness VALUES (NULL)")
		}
		if err == nil {
			maps.Copy(ended, a.ended) // what was read first counts
			a.ended = ended
		}
	}
}

// read returns how jobs have ended. A job that is closed later has still ended.
func (a *acts) read() (map[id]string, error) {
	ended := map[id]string{}
	for _, q := range append([]string{actsQueue}, queues...) {
		err := a.r.each("SELECT id, error, attempt FROM proof_"+q+" WHERE state = 'final'", func(rows *sql.Rows) error {
			i, attempt, text := id{queue: q}, 0, ""
			err := rows.Scan(&i.id, &text, &attempt)
			ended[i] = fmt.Sprintf("attempt %d, error %s", attempt, text)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return ended, nil
}

// judge returns the acknowledged acts that are missing, and the jobs that have not stayed as they had ended.
func (a *acts) judge() (bad []string) {
	a.r.more += len(a.list)
	after := dbtest.Must(a.read())(a.r.t)
	for i, was := range a.ended {
		if after[i] != was {
			bad = append(bad, fmt.Sprintf("job %s %d had ended (%s), and is now %q", i.queue, i.id, was, after[i]))
		}
	}
	type row struct {
		n, retries       int
		id, state, error string
	}
	jobs := map[string]row{}
	err := a.r.each("SELECT id, job_key, state, error, COALESCE(retry_of, 0) FROM proof_"+actsQueue+" ORDER BY id", func(rows *sql.Rows) error {
		var is row
		var key string
		var of int64
		err := rows.Scan(&is.id, &key, &is.state, &is.error, &of)
		was := jobs[key]
		if of == 0 {
			was.id, was.state, was.error = is.id, is.state, is.error
			was.n++
		} else {
			was.retries++
		}
		jobs[key] = was
		return err
	})
	dbtest.OK(a.r.t, err)
	counts := map[string]int{}
	for _, one := range a.list {
		is := jobs[one.key]
		effect := map[string]bool{
			"cancel": is.error == "cancelled", "retry": is.retries == 1, "complete": is.state == "final" && is.error == "NONE",
			"fail": is.state == "final" && is.error != "NONE", "reschedule": is.state == "final",
		}[one.verb]
		switch {
		case is.n > 1 || is.n == 0 && one.there == accepted || is.retries > 1 || is.n > 0 && one.there == accepted && is.id != one.id:
			bad = append(bad, fmt.Sprintf("%+v: it is %+v", *one, is))
		case one.done == accepted && !effect:
			bad = append(bad, fmt.Sprintf("hipq %s had no effect: %+v: it is %+v", one.verb, *one, is))
		case one.done == accepted:
			counts[one.verb]++
		}
	}
	a.r.notes = append(a.r.notes, fmt.Sprintf("acknowledged commands: %v; ends seen: %d", counts, len(a.ended)))
	return bad
}
