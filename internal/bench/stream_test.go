package bench

import (
	"fmt"
	"os/exec"
	"testing"

	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/schema"
)

// echoPython is the same as the command echo.
const echoPython = `
import json, sys
for line in sys.stdin:
    job = json.loads(line)
    sys.stdout.write(json.dumps({"id": job["id"], "outcome": "finished"}) + "\n")
    sys.stdout.flush()
`

// BenchmarkStream compares a drain by programs that take job after job with one by a Go function that does nothing.
func BenchmarkStream(b *testing.B) {
	const n = 20_000
	echo := build(b, b.TempDir(), "echo", "./echo")
	python, err := exec.LookPath("python3")
	if err != nil {
		b.Log(err)
	}
	stream := func(width int, argv ...string) Workers {
		s := &handler.Stream{Program: handler.Program{Argv: argv}, Processes: 2, InFlight: width / 2}
		b.Cleanup(s.Close)
		return Workers{Concurrency: width, Handler: s}
	}
	engines(b, func(b *testing.B, db *schema.DB, _ floor) {
		q := open(b, db, Plain("bench"))
		var sides []side
		for _, width := range []int{10, 100} {
			sides = append(sides, hipqDrain(fmt.Sprintf("go-c%d", width), q, n, Workers{Concurrency: width}),
				hipqDrain(fmt.Sprintf("stream-c%d", width), q, n, stream(width, echo)))
			if python != "" {
				sides = append(sides, hipqDrain(fmt.Sprintf("python-c%d", width), q, n, stream(width, python, "-c", echoPython)))
			}
		}
		for b.Loop() {
			r := compare(b, sides...)
			for _, width := range []int{10, 100} {
				base := fmt.Sprintf("go-c%d", width)
				r.report(b, fmt.Sprintf("stream/go-c%d", width), fmt.Sprintf("stream-c%d", width), base)
				if python != "" {
					r.report(b, fmt.Sprintf("python/go-c%d", width), fmt.Sprintf("python-c%d", width), base)
				}
			}
		}
	})
}
