package proof

import (
	"context"
	"io"
	"log"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/dbtest"
)

// servers kills the database server again and again, each time as soon as it serves and was at work for a moment.
func servers(r *round) {
	_ = mysql.SetLogger(log.New(io.Discard, "", 0)) // it would tell each lost connection
	node := dbtest.OwnNode(r.t)
	r.source = node.DSN
	r.begin()
	a, rng := r.acting(), r.random(10)
	r.live(workload{ticks: 3, backlog: 60}, time.Minute, func(ctx context.Context) {
		end := a.begin(ctx)
		for n := 0; n < 25 && time.Now().Before(r.until); n++ {
			time.Sleep(200*time.Millisecond + time.Duration(rng.IntN(1500))*time.Millisecond)
			r.inject("SIGKILL of the server")
			node.Kill()
			for down := time.Now(); r.db.Ping() != nil; time.Sleep(20 * time.Millisecond) {
				dbtest.Require(r.t, time.Since(down) < time.Minute, "the server is not back after a minute")
			}
		}
		end()
	})
	r.found = a.judge()
}
