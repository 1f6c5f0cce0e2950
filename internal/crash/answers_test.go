package crash

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

// answeredNo is the error in an answer that the work failed.
const answeredNo = "answered: no"

// answers settles asynchronous jobs from outside, some of them too late.
type answers struct {
	hipq hipq
	db   *database
	rng  *rand.Rand

	mu sync.Mutex
	// given has the accepted answers.
	given map[answered]string
}

// answered names an attempt. Jobs that start together share a token.
type answered struct{ queue, key, token string }

func newAnswers(h hipq, db *database, rng *rand.Rand) *answers {
	return &answers{hipq: h, db: db, rng: rng, given: map[answered]string{}}
}

// keep answers until ctx ends.
func (a *answers) keep(ctx context.Context, t *testing.T) {
	for ctx.Err() == nil {
		for _, q := range queues {
			if err := a.answer(ctx, q); err != nil {
				t.Error(err)
				return
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// answer answers some waiting jobs of a queue, and some whose timeout has passed.
func (a *answers) answer(ctx context.Context, queue string) error {
	type waiting struct{ key, token string }
	var list []waiting
	query := "SELECT job_key, attempt_token FROM " + jobsTable(queue) + " WHERE job_type = 'sent' AND (status = 'awaiting' OR state = 'retry') LIMIT 20"
	err := a.db.each(query, nil, func(rows *sql.Rows) error {
		var w waiting
		err := rows.Scan(&w.key, &w.token)
		list = append(list, w)
		return err
	})
	if err != nil {
		return err
	}
	for _, w := range list {
		switch p := a.rng.IntN(20); {
		case p < 6:
			err = a.give(ctx, w.token, "complete", queue, "sent", w.key, "--data", "x")
		case p < 7:
			err = a.give(ctx, w.token, "fail", queue, "sent", w.key, "--error", answeredNo)
		case p < 8:
			err = a.give(ctx, w.token, "fail", queue, "sent", w.key, "--retry", "--error", answeredNo)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// give sends an answer. Its attempt may be over by now.
func (a *answers) give(ctx context.Context, token string, args ...string) error {
	// not cancelled, because the last answer may be accepted
	_, err := a.hipq.run(context.WithoutCancel(ctx), append(args, "--token", token)...)
	if err != nil && ctx.Err() == nil && !strings.Contains(err.Error(), "the answer changes nothing") {
		return err
	}
	if err == nil {
		a.mu.Lock()
		a.given[answered{args[1], args[3], token}] = args[0]
		a.mu.Unlock()
	}
	return nil
}
