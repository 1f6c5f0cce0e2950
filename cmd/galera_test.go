package cmd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

// A command at one node sees a job that was just enqueued at another, even if its node lags.
func TestGaleraCommandsSeeOthers(t *testing.T) {
	nodes := dbtest.Nodes(t)
	do := func(node int, args ...string) (code int, out, errs string) {
		t.Helper()
		config := filepath.Join(t.TempDir(), "hipq.yaml")
		text := fmt.Sprintf("name: shop\ndatabase: {driver: mysql, dsn: %q}\nqueues: [{name: emails}]\n", nodes[node].DSN)
		dbtest.OK(t, os.WriteFile(config, []byte(text), 0o600))
		return shown(append(args, "--config", config)...)
	}
	run := func(node int, args ...string) string {
		t.Helper()
		code, out, errs := do(node, args...)
		dbtest.Ensure(t, code == 0, "hipq %s: exit code %d: %s", strings.Join(args, " "), code, errs)
		return strings.TrimSpace(out)
	}
	run(0, "init")
	run(1, "status")
	for _, command := range []string{"show", "why", "cancel"} {
		end := nodes[1].ReadOnly()
		id := run(0, "enqueue", "emails", "send")
		time.AfterFunc(300*time.Millisecond, end)
		run(1, command, "emails", id)
	}
	end := nodes[1].ReadOnly()
	id := run(0, "enqueue", "emails", "send")
	time.AfterFunc(300*time.Millisecond, end)
	listed := run(1, "jobs", "emails", "--json")
	dbtest.Ensure(t, strings.Contains(listed, `"id":`+id+`,`), "job %s is not listed: %s", id, listed)

	end = nodes[1].ReadOnly()
	id = run(0, "enqueue", "emails", "send")
	code, out, errs := do(1, "cancel", "emails", id)
	end()
	dbtest.Ensure(t, code == 75 && strings.Contains(errs, "the node is behind the others"), "exit code %d: %s%s", code, out, errs)
}
