// Command hipq is a durable job queue that needs only a database and cron.
package main

import (
	"os"
	"runtime/debug"

	"github.com/hipq/hipq/cmd"
)

// gcPercent lets the heap grow to 16 MB before the first collection. At Go's default of 4 MB a busy worker spends a
// quarter of its processor time on collections.
const gcPercent = 400

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	os.Exit(cmd.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
