package config

import (
	"path/filepath"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
)

const examplePath = "../hipq.example.yaml"

func TestExampleLoads(t *testing.T) {
	got := dbtest.Must(Load(LoadOptions{File: examplePath, Env: noEnv}))(t)
	// outside the queues, the example shows the defaults
	want := mustLoad(t, minimal)
	want.File, want.Database.Path, want.Queues = got.File, filepath.Join(filepath.Dir(got.File), "hipq.db"), got.Queues
	want.Schedules = got.Schedules
	want.Alert.Queues = got.Alert.Queues
	dbtest.Same(t, diff(want, got), "", "(-default +example)")
	files := got.Queues[0]
	if files.KeepFinished != queue.DefaultKeepFinished || files.KeepFailed != queue.DefaultKeepFailed || files.ThrottleLimit != 0 {
		t.Errorf("the first queue does not show the defaults: %+v", files.Options)
	}
}
