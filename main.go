// Command hipq is a durable job queue for teams that have a database and cron and want nothing else.
package main

import (
	"os"

	"github.com/hipq/hipq/cmd"
)

func main() {
	os.Exit(cmd.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
