package store_test

import (
	"errors"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

// Neither a queue that is none nor a transaction that is none is a panic.
func TestEnqueueIntoNothing(t *testing.T) {
	one := job.Params{Type: "send"}
	var none queue.Queue
	if _, err := none.Enqueue(t.Context(), one); !errors.Is(err, queue.ErrOptions) {
		t.Errorf("into the zero Queue: %v", err)
	}
	if _, err := none.EnqueueTx(t.Context(), nil, one); !errors.Is(err, queue.ErrOptions) {
		t.Errorf("into the zero Queue, in a transaction: %v", err)
	}
	s := openStore(t, dbtest.Open(t, "sqlite", dbtest.SQLite(t), "emails"), options())
	if _, err := s.EnqueueTx(t.Context(), nil, one); err == nil || err.Error() != "enqueue in emails: the transaction is nil" {
		t.Errorf("in no transaction: %v", err)
	}
}
