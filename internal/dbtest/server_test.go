package dbtest_test

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
)

func TestMySQLWithoutServer(t *testing.T) {
	for _, c := range []struct{ require, ci, want string }{
		{"", "", "skip"},
		{"1", "", "fail"},
		{"", "true", "fail"},
	} {
		t.Run("require="+c.require+",ci="+c.ci, func(t *testing.T) {
			t.Setenv("HIPQ_TEST_MYSQL_DSN", "")
			t.Setenv("HIPQ_TEST_REQUIRE_MYSQL", c.require)
			t.Setenv("CI", c.ci)
			tb := &recorder{TB: t}
			func() {
				defer func() { _ = recover() }()
				dbtest.MySQL(tb)
			}()
			dbtest.Ensure(t, tb.outcome == c.want, "outcome %q, want %q", tb.outcome, c.want)
			dbtest.Ensure(t, strings.Contains(tb.message, "make test"), "message %q does not say how to run the test", tb.message)
		})
	}
}

func TestEach(t *testing.T) {
	var drivers []string
	dbtest.Each(t, func(t *testing.T, driver, source string) {
		drivers = append(drivers, driver)
		dbtest.Ensure(t, source != "" && strings.HasSuffix(t.Name(), "/"+driver), "%s: source %q", t.Name(), source)
	})
	dbtest.SkipIf(t, flag.Lookup("test.skip").Value.String() != "", "an engine may be left out")
	want := []string{"sqlite", "mysql"}
	if os.Getenv("HIPQ_TEST_MYSQL_DSN") == "" {
		want = want[:1]
	}
	dbtest.Ensure(t, slices.Equal(drivers, want), "ran for %v, want %v", drivers, want)
}

// recorder replaces a test that MySQL skips or fails. It panics to end the call, as Skip and Fatal do.
type recorder struct {
	testing.TB
	outcome, message string
}

func (r *recorder) Skip(args ...any)  { r.end("skip", args) }
func (r *recorder) Fatal(args ...any) { r.end("fail", args) }

func (r *recorder) end(outcome string, args []any) {
	r.outcome, r.message = outcome, args[0].(string)
	panic(outcome)
}
