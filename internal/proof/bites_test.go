package proof

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

// damages are what a database could do to jobs and entries. Each changes one row.
var damages = []struct{ what, status, statement string }{
	{"a waiting job is deleted", "available", "DELETE FROM proof_files WHERE id = %s AND status = 'available'"},
	{"a finished job is deleted", "finished", "DELETE FROM proof_files WHERE id = %s"},
	{"a finished job is doubled", "finished", "INSERT INTO proof_files (job_type, job_key, job_data, status, attempt, attempt_token)" +
		" SELECT job_type, job_key, job_data, status, attempt, attempt_token FROM proof_files WHERE id = %s"},
	{"the entry of its addition is deleted", "finished", "DELETE FROM proof_activity WHERE queue = 'files' AND job_id = %s AND state = 'added'"},
	{"the entry of its first start is deleted", "finished", "DELETE FROM proof_activity WHERE queue = 'files' AND job_id = %s AND state = 'starting' AND attempt = 1"},
	{"the entry of its end is deleted", "finished", "DELETE FROM proof_activity WHERE queue = 'files' AND job_id = %s AND state = 'finished'"},
}

// TestChecksBite damages the database while workers run. The checks must find each damage, and nothing else.
func TestChecksBite(t *testing.T) {
	bin := build(t)
	for _, engine := range []string{"sqlite", "mariadb"} {
		t.Run(engine, func(t *testing.T) {
			r := newRound(t, turn{engine: engine}, 1, bin)
			damaged, found := map[string]string{}, map[string]bool{} // by key or id, and what
			r.live(workload{ticks: 2, backlog: 40}, time.Minute, func(ctx context.Context) {
				for _, d := range damages {
					for done := int64(0); done == 0; time.Sleep(time.Millisecond) {
						rows := dbtest.Must(dbtest.Rows(ctx, r.db, "SELECT id, job_key FROM proof_files WHERE job_type = 'plain' AND status = '"+d.status+"' ORDER BY id DESC LIMIT 1"))(t)
						if len(rows) == 1 && damaged[rows[0][1].String] == "" {
							result := dbtest.Must(r.db.ExecContext(ctx, fmt.Sprintf(d.statement, rows[0][0].String)))(t)
							if done = dbtest.Must(result.RowsAffected())(t); done == 1 {
								damaged["files "+rows[0][0].String+" "], damaged[rows[0][1].String] = d.what, d.what
							}
						}
					}
				}
			})
			for _, bad := range r.violations() {
				what := ""
				for _, name := range regexp.MustCompile(`job-\d+|files \d+ `).FindAllString(bad, -1) {
					what = cmp.Or(what, damaged[name])
				}
				dbtest.Ensure(t, what != "", "nothing was damaged, but: %s", bad)
				found[what] = true
			}
			for _, d := range damages {
				dbtest.Ensure(t, found[d.what], "%s, and no check finds it", d.what)
			}
		})
	}
}
