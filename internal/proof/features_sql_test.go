package proof

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
	"pgregory.net/rapid"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/internal/texts"
)

// bySQL draws whether a stored procedure does what a command does.
func (p *play) bySQL() bool { return p.driver == "mysql" && rapid.Bool().Draw(p.T, "by SQL") }

// call calls a stored procedure and returns the rows of its result.
func (p *play) call(procedure string, args ...any) [][]string {
	p.Helper()
	list, ok := p.try(procedure, args...)
	dbtest.Require(p.T, ok, "%s refuses: %v", procedure, list)
	return list
}

// try is call, and says whether the procedure refused; then the row is the refusal.
func (p *play) try(procedure string, args ...any) (list [][]string, ok bool) {
	p.Helper()
	statement := "CALL shop_" + procedure + "(" + strings.Repeat(", ?", len(args))[2:] + ")"
	p.Logf("%s %v", statement, args)
	rows, err := dbtest.Rows(context.Background(), p.db, statement, args...)
	if refusal, is := errors.AsType[*mysql.MySQLError](err); is && refusal.Number > 31000 && refusal.Number < 32000 {
		return [][]string{{refusal.Error()}}, false
	}
	dbtest.OK(p.T, err)
	for _, row := range rows {
		list = append(list, texts.Map(row, func(cell sql.NullString) string { return cell.String }))
	}
	return list, true
}

// row compares a procedure's only row.
func (p *play) row(got [][]string, want ...any) {
	p.Helper()
	dbtest.Require(p.T, fmt.Sprint(got) == fmt.Sprint([][]any{want}), "the procedure returned %v, want %v", got, want)
}

// operateBySQL is a command to a job, by its procedure.
func (p *play) operateBySQL(j *mJob, command string, flag bool, in string, priority int) {
	p.Helper()
	word, other := j.operate(command, flag, in, priority)
	if word == "retried" {
		if p.expect(other); j.q.shards > 0 { // no procedure knows shards: the next tick takes the copy in
			other.status, other.log, other.moved = "submitted", nil, false
		}
	}
	args := []any{j.q.name, j.id, nil, nil}
	switch command {
	case "cancel":
		args = append(args, when[any](flag, `{"running": true}`, nil))
	case "reschedule":
		options := map[string]any{}
		if in != "" {
			options["in"] = in
		}
		if priority != 0 {
			options["priority"] = priority
		}
		args = append(args, asJSON(p.T, options))
	}
	out, ok := p.try("job_"+command, args...)
	p.sync(nil, j.q)
	dbtest.Require(p.T, ok == (word != "refused"), "job_%s: %v, but the model says %s", command, out, word)
	if ok && command == "retry" {
		p.row(out, other.state(), other.id, btoi(word == "duplicate"))
	}
}

// submit enqueues by the stored procedure.
func (p *play) submit(t *rapid.T) {
	p.T = t
	q, on, many := pick(t, "queue", p.queues[:4]...), pick(t, "on duplicate", "ignore", "ignore", "replace", "error"), rapid.Bool().Draw(t, "many")
	j, own := p.spec(q, on)
	for _, j := range p.copies(j, own, pick(t, "copies", 1, 2, 20)) {
		options := p.fields(j)
		options["on_duplicate"] = on
		for _, name := range []string{"queue", "job_type", "job_key", "job_data"} {
			delete(options, name)
		}
		if at := options["scheduled_run_time"]; at != nil {
			delete(options, "scheduled_run_time")
			options["at"] = at
		}
		got, word := q.add(j, on)
		procedure, args := "job_submit", []any{q.name, j.t.name, j.key, j.data, asJSON(t, options)}
		if many {
			job := map[string]any{"job_type": j.t.name, "job_key": j.key, "job_data": j.data, "options": options}
			procedure, args = "job_submit_many", []any{q.name, asJSON(t, []any{job})}
		}
		out, ok := p.try(procedure, args...)
		if word == "added" {
			p.expect(j)
		}
		p.sync(nil, q)
		if refused := word == "refused" || on == "replace" && word == "duplicate"; refused || !ok {
			dbtest.Require(t, refused && !ok, "%s: %v, but the model says %s", procedure, out, word)
			continue
		}
		is := p.call("job_get", q.name, nil, j.t.name, j.key)
		dbtest.Require(t, len(is) == 1 && is[0][0] == fmt.Sprint(got.id), "job_get returned %v, want job %d", is, got.id)
		want := []any{got.id, btoi(word != "added")}
		if many {
			want = append([]any{1}, want...)
		}
		p.row(out, want...)
	}
}

func asJSON(t *rapid.T, value any) string { return string(dbtest.Must(json.Marshal(value))(t)) }

// sqlWorker is a worker in SQL: it grabs jobs, starts some of them, settles those, and gives the others back.
func (p *play) sqlWorker(t *rapid.T) {
	p.T = t
	q := pick(t, "queue", p.queues[:3]...)
	types := rapid.SliceOfNDistinct(rapid.SampledFrom(q.types), 1, 4, func(t *mType) string { return t.name }).Draw(t, "types")
	names := []string{}
	for _, kind := range types {
		names = append(names, kind.name)
	}
	n := pick(t, "n", 1, 3, 20)
	k := newTick(n, func(j *mJob) bool { return j.q == q && slices.Contains(names, j.t.name) }, q)
	k.bySQL = true
	want, free := k.next(q, n, true), k.next(q, n, false) // a job of another worker may hold others back, or not
	p.secrets++
	secret := fmt.Sprintf("%032d%x", p.secrets, p.start.UnixNano())
	p.call("worker_register", secret, "test", 1, 60)
	jobs := p.call("job_grab", secret, q.name, asJSON(t, names), n)
	got := []*mJob{}
	for _, r := range jobs {
		got = append(got, p.byID[q.name+" "+r[0]])
	}
	dbtest.Require(t, slices.Equal(got, want) || slices.Equal(got, free),
		"job_grab returned %v:\n%swant:\n%sor:\n%s", jobs, k.describe(got), k.describe(want), k.describe(free))
	for i, j := range got[:rapid.IntRange(0, len(got)).Draw(t, "starts")] {
		id, token := jobs[i][0], jobs[i][6]
		p.call("job_start", secret, q.name, id, token)
		p.call("job_progress", secret, q.name, id, token, 50, "half")
		do := letter(j.do, j.attempt+1)
		l := letters[do]
		var out [][]string
		switch {
		case do == 'D':
			out = p.call("job_complete", secret, q.name, id, token, letters['D'][3])
		case l[0] == "finished" || l[0] == "sent":
			out = p.call("job_complete", secret, q.name, id, token, nil)
		default:
			options, why := map[string]any{}, any("sql "+l[1])
			switch l[0] {
			case "failed":
				options["final"] = true
			case "release":
				options["release"], options["count"], why = true, l[2] == "now", nil
			}
			if l[2] != "" {
				options["retry_after"] = map[string]string{"now": "0s", "later": "3d"}[l[2]]
			}
			out = p.call("job_fail", secret, q.name, id, token, why, asJSON(t, options))
		}
		p.sync(k, q)
		dbtest.Require(t, len(out) == 1 && out[0][0] == j.state(), "job %s: the procedure returned %v, want %s", id, out, j.state())
	}
	p.call("worker_deregister", secret)
	p.sync(nil, q)
}

// describe is what the model knows of jobs.
func (k *mTick) describe(jobs []*mJob) (text string) {
	for _, j := range jobs {
		if j == nil {
			text += "a job that it doesn't know\n"
			continue
		}
		text += fmt.Sprintf("%d is %s at %s, attempt %d, weight %d, held by %q\n", j.id, j.status, j.at, j.attempt, j.factor, k.limited(j))
	}
	return text
}
