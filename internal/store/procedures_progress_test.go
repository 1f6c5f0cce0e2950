package store_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

// A worker by SQL says how far it is: under its token, of what it has started, and without waiting for anybody.
func TestProcedureProgress(t *testing.T) {
	proceduresSuite(t, func(*queue.Options) {}, func(s env) {
		id := s.add(job.Params{Type: "send"})[0].ID
		g := s.begin("w1")
		say := func(percent, note any) string {
			t.Helper()
			return s.one("job_progress", "w1", "emails", id, g["token"], percent, note)["written"]
		}
		for _, tt := range []struct {
			percent, note any
			want          string
		}{
			{40.9, "page 4 of 10", "40 % (page 4 of 10)"},
			{100, nil, "100 %"},
			{0, strings.Repeat("😀", 300), "0 % (" + strings.Repeat("😀", 255) + ")"},
			{1, "", "1 %"},
		} {
			if written := say(tt.percent, tt.note); written != "1" {
				t.Errorf("%v is not written: %s", tt.percent, written)
			}
			if p, ok := s.get(id).Reached(); !ok || p.String() != tt.want || p.Time.IsZero() {
				t.Errorf("%v: %+v, %v", tt.percent, p, ok)
			}
		}
		before := s.all()
		for _, tt := range []struct {
			args []any
			want string
		}{
			{[]any{"w1", "emails", id, g["token"], nil, "x"}, "31001"},
			{[]any{"w1", "emails", nil, g["token"], 5, "x"}, "31001"},
			{[]any{"w1", "emails", id, g["token"], 100.1, "x"}, "31002"},
			{[]any{"w1", "emails", id, g["token"], -0.1, "x"}, "31002"},
			{[]any{"w1", "letters", id, g["token"], 5, "x"}, "31003"},
			{[]any{"w1", "emails", 4711, g["token"], 5, "x"}, "31007"},
			{[]any{"w1", "emails", id, "another", 5, "x"}, "31008"},
			{[]any{"w2", "emails", id, g["token"], 5, "x"}, "31008"},
		} {
			if _, err := s.try("job_progress", tt.args...); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v: %v, want %s", tt.args, err, tt.want)
			}
		}
		if after := s.all(); after != before {
			t.Errorf("a refusal has changed something:\n%s\nbefore\n%s", after, before)
		}

		// somebody holds the row
		tx := must[*sql.Tx](t)(s.db.SQL.BeginTx(t.Context(), nil))
		must[sql.Result](t)(tx.ExecContext(t.Context(), "SELECT id FROM shop_emails WHERE id = ? FOR UPDATE", id))
		if s.db.SQL.IDsByKey { // on a node of a cluster it waits
			_ = tx.Rollback()
		} else if written := say(50, "held"); written != "0" {
			t.Errorf("it is written: %s", written)
		}
		_ = tx.Rollback()
		if written := say(1, ""); written != "1" {
			t.Errorf("it is not written when the other transaction is over: %s", written)
		}
		s.one("job_complete", "w1", "emails", id, g["token"], nil)
		if _, err := s.try("job_progress", "w1", "emails", id, g["token"], 5, ""); err == nil || !strings.Contains(err.Error(), "31012") {
			t.Errorf("of an attempt that has ended: %v", err)
		}
		if p, ok := s.get(id).Reached(); !ok || p.Percent != 1 || s.get(id).State() != job.Final {
			t.Errorf("in the end it has reached %+v", p)
		}
	})
}

// Once an answer has come from outside, progress counts no more. The worker hears of the answer when it settles the job.
func TestProcedureProgressOfAnAnswered(t *testing.T) {
	proceduresSuite(t, asynchronous, func(s env) {
		for _, tt := range []struct {
			answer queue.Answer
			ends   string
		}{
			{queue.Answer{Key: "retry", Verdict: job.TryAgain, Error: "no"}, "no NONE"},
			{queue.Answer{Key: "failed", Verdict: job.Failed, Error: "never"}, "never NONE"},
			{queue.Answer{Key: "finished", Verdict: job.Finished, Result: "ok"}, "NONE ok"},
		} {
			id := s.add(job.Params{Type: "send", Key: tt.answer.Key})[0].ID
			g := s.begin("w1")
			s.one("job_progress", "w1", "emails", id, g["token"], 40, "")
			must[queue.Answered](t)(s.answer(tt.answer))
			list, err := s.try("job_progress", "w1", "emails", id, g["token"], 90, "")
			got := fmt.Sprint(err)
			if err == nil {
				got = list[0]["written"]
			}
			if p, _ := s.get(id).Reached(); got != "0" || p.Percent != 40 {
				t.Errorf("%s: %s, %+v", tt.answer.Key, got, p)
			}
			s.one("job_fail", "w1", "emails", id, g["token"], "its own word", nil)
			if j := s.get(id); j.Error+" "+j.Result != tt.ends {
				t.Errorf("%s: in the end %s %s", tt.answer.Key, j.Error, j.Result)
			}
		}
	})
}
