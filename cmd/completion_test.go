package cmd_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

// Completion doesn't wait for a database that doesn't answer. It offers the config's names and prints no error.
func TestCompletionDoesNotWait(t *testing.T) {
	mute := dbtest.Must(net.Listen("tcp", "127.0.0.1:0"))(t) // a client waits for a greeting
	defer mute.Close()
	config := filepath.Join(t.TempDir(), "hipq.yaml")
	text := fmt.Sprintf("name: shop\ndatabase: {driver: mysql, dsn: \"hipq:secret@tcp(%s)/shop\"}\nqueues: [{name: emails, job_types: [{name: send}]}]\n", mute.Addr())
	dbtest.OK(t, os.WriteFile(config, []byte(text), 0o600))
	for line, want := range map[string]string{
		"show ":                "emails\n:36\n",
		"show emails ":         ":36\n",
		"complete emails ":     "send\n:36\n",
		"enqueue emails s":     "send\n:36\n",
		"jobs --type ":         "send\n:36\n",
		"activity --worker ":   ":36\n",
		"activity --queue em":  "emails\n:36\n",
		"jobs --state failed ": "emails\n:36\n",
	} {
		began := time.Now()
		code, out, errs := shown(append([]string{"__complete", "--config", config}, strings.Split(line, " ")...)...)
		dbtest.Ensure(t, code == 0 && out == want && errs == "", "hipq %s: exit code %d, %q, want %q\n%s", line, code, out, want, errs)
		if took := time.Since(began); took > 5*time.Second { // a connection waits up to 10 s for the greeting, and is retried
			t.Errorf("hipq %s: it took %s", line, took)
		}
	}
}
