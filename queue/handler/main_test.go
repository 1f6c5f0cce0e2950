package handler_test

import (
	"fmt"
	"os"
	"testing"
	"github.com/google/uuid"

	"go.uber.org/goleak"

	"github.com/hipq/hipq/queue/handler"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "guard" {
		if err := handler.ServeGuard(os.Stdin, os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
func newWorkerID() string { return uuid.NewString() }

func guardArgv() []string { return []string{os.Args[0], "guard"} }
