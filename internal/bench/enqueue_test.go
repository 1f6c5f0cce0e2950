package bench

import (
	"context"
	"testing"

	"github.com/hipq/hipq/schema"
)

// BenchmarkEnqueue compares enqueueing with the floor: in bulk, one by one on 1 and on 16 connections, and in an
// application's transactions.
func BenchmarkEnqueue(b *testing.B) {
	const many, single = 20_000, 2000
	engines(b, func(b *testing.B, db *schema.DB, bare floor) {
		q := open(b, db, Plain("bench"))
		singly := func(n int) (side, side) {
			return side{jobs: single, run: func(ctx context.Context) error { return bare.enqueueSingle(ctx, single, n) }},
				side{jobs: single, run: func(ctx context.Context) error { return q.FillSingly(ctx, single, n) }}
		}
		bare1, hipq1 := singly(1)
		bare16, hipq16 := singly(16)
		bare1.name, hipq1.name, bare16.name, hipq16.name = "floor-c1", "c1", "floor-c16", "c16"
		for b.Loop() {
			r := compare(b,
				side{name: "floor-bulk", jobs: many, run: func(ctx context.Context) error { return bare.enqueueMany(ctx, many) }},
				side{name: "bulk", jobs: many, run: func(ctx context.Context) error { return q.Fill(ctx, many) }},
				bare1, hipq1, bare16, hipq16,
				side{name: "tx", jobs: single, run: func(ctx context.Context) error { return q.FillInTx(ctx, single) }})
			r.report(b, "bulk/floor", "bulk", "floor-bulk")
			r.report(b, "c1/floor", "c1", "floor-c1")
			r.report(b, "c16/floor", "c16", "floor-c16")
			r.report(b, "tx/floor", "tx", "floor-c1")
		}
	})
}
