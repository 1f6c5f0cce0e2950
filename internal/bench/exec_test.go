package bench

import (
	"context"
	"fmt"
	"os/exec"
	"testing"

	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/schema"
)

// BenchmarkExec compares a drain of jobs that run /bin/true with a loop that runs it, as many at once.
func BenchmarkExec(b *testing.B) {
	const n = 3000
	engines(b, func(b *testing.B, db *schema.DB, _ floor) {
		q := open(b, db, Plain("bench"))
		var sides []side
		for _, width := range []int{4, 64} {
			sides = append(sides,
				side{name: fmt.Sprintf("bare-c%d", width), jobs: n, run: func(ctx context.Context) error { return bareExec(ctx, n, width) }},
				hipqDrain(fmt.Sprintf("c%d", width), q, n, Workers{Concurrency: width, Handler: &handler.Exec{Program: handler.Program{Argv: []string{"/bin/true"}}}}))
		}
		for b.Loop() {
			r := compare(b, sides...)
			r.report(b, "c4/bare", "c4", "bare-c4")
			r.report(b, "c64/bare", "c64", "bare-c64")
		}
	})
}

func bareExec(ctx context.Context, n, width int) error {
	return share(n, width, func(int) error { return exec.CommandContext(ctx, "/bin/true").Run() })
}
