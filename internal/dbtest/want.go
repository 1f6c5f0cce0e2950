package dbtest

import (
	"fmt"
	"reflect"
)

// tester is a test or a rapid check.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

// Must returns a call's value, or ends the test if the call failed.
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

// Same fails if two values differ; about names them, as a format and its arguments.
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

// Ensure fails with a message unless the condition holds.
func Ensure(t tester, is bool, format string, args ...any) {
	t.Helper()
	if !is {
		t.Errorf(format, args...)
	}
}

// Require is Ensure that ends the test.
func Require(t tester, is bool, format string, args ...any) {
	t.Helper()
	if !is {
		t.Fatal(fmt.Sprintf(format, args...))
	}
}
