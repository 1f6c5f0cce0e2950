package queuetest_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
)

// pretended is a testing.TB that records failures.
type pretended struct {
	testing.TB // for its unexported method
	dir        string
	cleanups   []func()
	said       string
}

// pretend runs a test and returns its failure text, or "".
func pretend(f func(t testing.TB)) string {
	dir, err := os.MkdirTemp("", "queuetest")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	t := &pretended{dir: dir}
	defer t.end()
	return t.run(func() { f(t) })
}

// run runs part of a test and returns its failure text.
func (t *pretended) run(f func()) string {
	t.said = ""
	ended := make(chan struct{})
	go func() { // because of Goexit
		defer close(ended)
		f()
	}()
	<-ended
	return t.said
}

func (t *pretended) end() {
	for _, f := range slices.Backward(t.cleanups) {
		f()
	}
}

// test runs a test and prints its failure text.
func test(f func(t testing.TB)) { fmt.Print(pretend(f)) }

func (t *pretended) Helper()                  {}
func (t *pretended) Cleanup(f func())         { t.cleanups = append(t.cleanups, f) }
func (t *pretended) TempDir() string          { return t.dir }
func (t *pretended) Context() context.Context { return context.Background() }

func (t *pretended) Errorf(format string, args ...any) { t.said += fmt.Sprintf(format, args...) + "\n" }

func (t *pretended) Fatal(args ...any) {
	t.said += fmt.Sprintln(args...)
	runtime.Goexit()
}

func (t *pretended) Fatalf(format string, args ...any) { t.Fatal(fmt.Sprintf(format, args...)) }
