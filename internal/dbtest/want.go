package dbtest

import (
	"fmt"
	"reflect"
)

// tester is a test, or a check of rapid's.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

// Must gives what a call gave, and ends the test if that is an error.
func Must[T any](v T, err error) func(tester) T {
	return func(t tester) T {
		t.Helper()
		OK(t, err)
		return v
	}
}

// OK ends the test if there is an error.
func OK(t tester, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Same wants two values to be the same; about says of what they are, as a format and what goes into it.
func Same[T any](t tester, got, want T, about ...any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		what := ""
		if len(about) > 0 {
			what = fmt.Sprintf(about[0].(string), about[1:]...) + ": "
		}
		t.Errorf("%sgot %+v, want %+v", what, got, want)
	}
}

// Ensure wants something to be so, or says what is wrong.
func Ensure(t tester, is bool, format string, args ...any) {
	t.Helper()
	if !is {
		t.Errorf(format, args...)
	}
}

// Require is Ensure where the test can't go on otherwise.
func Require(t tester, is bool, format string, args ...any) {
	t.Helper()
	if !is {
		t.Fatal(fmt.Sprintf(format, args...))
	}
}
