// Command self measures hipq alone, in the units used for other queues. It prints lines of a name, a metric, a value
// and a unit, separated by tabs. Names and cases never change, so that the lines of two commits are comparable.
//
// Its environment configures it:
//
//	MARIA_DSN   a MariaDB database, in go-sql-driver's form; if unset, only SQLite is measured
//	SERVER_PID  the server's process, to measure its CPU time
//	BENCH_TMP   the folder of SQLite's file
//	N           how many jobs to drain at a time (20000)
//	SINGLE      how many to enqueue one by one (2000)
//	CASES       what to measure: plain, workers (both by default), types20, throttle
//
// With an argument it is one of the workers: see [bench.Process].
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/hipq/hipq/internal/bench"
	"github.com/hipq/hipq/schema"
)

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // as hipq does
	}
	if err := run(context.Background(), os.Args[1:]); err != nil {
		panic(err)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		return bench.Serve(ctx, args[0], os.Stdin, os.Stdout)
	}
	n, err := number("N", 20_000)
	if err != nil {
		return err
	}
	single, err := number("SINGLE", 2000)
	if err != nil {
		return err
	}
	chosen, err := choose(os.Getenv("CASES"))
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(os.Getenv("BENCH_TMP"), "hipqself")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if dsn := os.Getenv("MARIA_DSN"); dsn != "" {
		e := engine{meter: meter{os.Stdout, "hipq.maria", os.Getenv("SERVER_PID")}, n: n, single: single}
		if err := e.measure(ctx, schema.Options{Driver: "mysql", DSN: dsn, Create: true, Patient: true}, chosen); err != nil {
			return err
		}
	}
	e := engine{meter: meter{os.Stdout, "hipq.sqlite", ""}, n: n, single: single}
	return e.measure(ctx, schema.Options{Driver: "sqlite", Path: filepath.Join(dir, "hipq.db"), Create: true}, chosen)
}

func number(name string, otherwise int) (int, error) {
	text := os.Getenv(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err == nil && n < 1 {
		err = fmt.Errorf("%d is too few", n)
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return n, nil
}

// choose returns the cases in a list with commas or blanks.
func choose(list string) ([]measurement, error) {
	names := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
	if len(names) == 0 {
		names = []string{"plain", "workers"}
	}
	chosen := make([]measurement, len(names))
	for i, name := range names {
		if chosen[i] = cases[name]; chosen[i].measure == nil {
			return nil, fmt.Errorf("CASES: there is no %q", name)
		}
	}
	return chosen, nil
}

// engine is a database on which hipq is measured.
type engine struct {
	meter
	n, single int
	place     bench.Place
}

func (e engine) measure(ctx context.Context, o schema.Options, chosen []measurement) error {
	names, err := schema.NewNames("bench", "")
	if err != nil {
		return err
	}
	db, err := schema.Open(ctx, o, names)
	if err != nil {
		return err
	}
	defer db.Close()
	for _, m := range chosen {
		e.place = bench.Place{Driver: o.Driver, Source: cmp.Or(o.DSN, o.Path), Instance: "bench", Queue: m.queue.Name}
		q, err := bench.Open(ctx, db, m.queue)
		if err != nil {
			return err
		}
		// an earlier, interrupted run may have left jobs
		if _, err := q.Drain(ctx, bench.Workers{Concurrency: 100}); err != nil {
			return err
		}
		if err := m.measure(e, ctx, q); err != nil {
			return err
		}
	}
	return nil
}
