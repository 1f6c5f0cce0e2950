package rules_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hipq/hipq/internal/rules"
	"github.com/hipq/hipq/queue/job"
)

// allowedTransitions spells out all pairs: a row per state left, a column per state entered.
var allowedTransitions = map[job.State]string{
	//             i r e t f: initial, running, error, retry, final
	job.Initial: "- y - - y",
	job.Running: "- - y - y",
	job.Error:   "- - - y y",
	job.Retry:   "- y - - y",
	job.Final:   "- - - - -",
}

func mayFollow(from, to job.State) bool {
	order := []job.State{job.Initial, job.Running, job.Error, job.Retry, job.Final}
	return strings.Fields(allowedTransitions[from])[slices.Index(order, to)] == "y"
}

func checkTransition(t rapid.TB, from, to job.State, allowed bool) {
	t.Helper()
	err := rules.CheckTransition(from, to)
	switch {
	case allowed && err != nil:
		t.Errorf("%s to %s: %v", from, to, err)
	case !allowed && !errors.Is(err, rules.ErrTransition):
		t.Errorf("%s to %s: %v, want a refusal", from, to, err)
	case !allowed && !strings.Contains(err.Error(), string(from)+" to "+string(to)):
		t.Errorf("%s to %s: the error doesn't name both: %v", from, to, err)
	}
}

func TestTransitions(t *testing.T) {
	if len(job.States) != len(allowedTransitions) {
		t.Fatalf("%d states, the matrix has %d", len(job.States), len(allowedTransitions))
	}
	for _, from := range job.States {
		for _, to := range job.States {
			checkTransition(t, from, to, mayFollow(from, to))
		}
	}
}

// I5
func TestNothingLeavesFinal(t *testing.T) {
	anything := rapid.OneOf(rapid.SampledFrom(job.States), rapid.Map(rapid.String(), func(s string) job.State { return job.State(s) }))
	rapid.Check(t, func(t *rapid.T) {
		checkTransition(t, job.Final, anything.Draw(t, "to"), false)
	})
}

func TestUnknownStatesAreRefused(t *testing.T) {
	unknown := rapid.Map(rapid.String(), func(s string) job.State { return job.State(s) }).
		Filter(func(s job.State) bool { return !slices.Contains(job.States, s) })
	rapid.Check(t, func(t *rapid.T) {
		known, u := rapid.SampledFrom(job.States).Draw(t, "known"), unknown.Draw(t, "unknown")
		checkTransition(t, known, u, false)
		checkTransition(t, u, known, false)
		checkTransition(t, u, u, false)
	})
	checkTransition(t, job.Initial, "Running", false)
	checkTransition(t, "", job.Initial, false)
}

// A life obeys what the states mean, whatever it meets: tries that are refused change nothing.
func TestLivesOfAJob(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		state, life := job.Initial, []job.State{job.Initial}
		for _, to := range rapid.SliceOfN(rapid.SampledFrom(job.States), 0, 60).Draw(t, "tries") {
			if rules.CheckTransition(state, to) == nil {
				state = to
				life = append(life, to)
			}
		}
		for i, s := range life[1:] {
			before := life[i]
			switch {
			case before == job.Final:
				t.Fatalf("%v: it left final", life)
			case s == job.Initial:
				t.Fatalf("%v: it was accepted twice", life)
			case s == job.Error && before != job.Running:
				t.Fatalf("%v: an error without an attempt", life)
			case s == job.Retry && before != job.Error:
				t.Fatalf("%v: a retry without an error", life)
			}
		}
		if state != job.Final && rules.CheckTransition(state, job.Final) != nil {
			t.Fatalf("%v: it can't end", life)
		}
	})
}
