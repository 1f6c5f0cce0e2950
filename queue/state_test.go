package queue_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hipq/hipq/queue"
)

// allowedTransitions spells out all pairs: a row per state left, a column per state entered.
var allowedTransitions = map[queue.State]string{
	//             i r e t f: initial, running, error, retry, final
	queue.Initial: "- y - - y",
	queue.Running: "- - y - y",
	queue.Error:   "- - - y y",
	queue.Retry:   "- y - - y",
	queue.Final:   "- - - - -",
}

func mayFollow(from, to queue.State) bool {
	order := []queue.State{queue.Initial, queue.Running, queue.Error, queue.Retry, queue.Final}
	return strings.Fields(allowedTransitions[from])[slices.Index(order, to)] == "y"
}

func checkTransition(t rapid.TB, from, to queue.State, allowed bool) {
	t.Helper()
	err := queue.CheckTransition(from, to)
	switch {
	case allowed && err != nil:
		t.Errorf("%s to %s: %v", from, to, err)
	case !allowed && !errors.Is(err, queue.ErrTransition):
		t.Errorf("%s to %s: %v, want a refusal", from, to, err)
	case !allowed && !strings.Contains(err.Error(), string(from)+" to "+string(to)):
		t.Errorf("%s to %s: the error doesn't name both: %v", from, to, err)
	}
}

func TestTransitions(t *testing.T) {
	if len(queue.States) != len(allowedTransitions) {
		t.Fatalf("%d states, the matrix has %d", len(queue.States), len(allowedTransitions))
	}
	for _, from := range queue.States {
		for _, to := range queue.States {
			checkTransition(t, from, to, mayFollow(from, to))
		}
	}
}

// I5
func TestNothingLeavesFinal(t *testing.T) {
	anything := rapid.OneOf(rapid.SampledFrom(queue.States), rapid.Map(rapid.String(), func(s string) queue.State { return queue.State(s) }))
	rapid.Check(t, func(t *rapid.T) {
		checkTransition(t, queue.Final, anything.Draw(t, "to"), false)
	})
}

func TestUnknownStatesAreRefused(t *testing.T) {
	unknown := rapid.Map(rapid.String(), func(s string) queue.State { return queue.State(s) }).
		Filter(func(s queue.State) bool { return !slices.Contains(queue.States, s) })
	rapid.Check(t, func(t *rapid.T) {
		known, u := rapid.SampledFrom(queue.States).Draw(t, "known"), unknown.Draw(t, "unknown")
		checkTransition(t, known, u, false)
		checkTransition(t, u, known, false)
		checkTransition(t, u, u, false)
	})
	checkTransition(t, queue.Initial, "Running", false)
	checkTransition(t, "", queue.Initial, false)
}

// A life obeys what the states mean, whatever it meets: tries that are refused change nothing.
func TestLivesOfAJob(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		state, life := queue.Initial, []queue.State{queue.Initial}
		for _, to := range rapid.SliceOfN(rapid.SampledFrom(queue.States), 0, 60).Draw(t, "tries") {
			if queue.CheckTransition(state, to) == nil {
				state = to
				life = append(life, to)
			}
		}
		for i, s := range life[1:] {
			before := life[i]
			switch {
			case before == queue.Final:
				t.Fatalf("%v: it left final", life)
			case s == queue.Initial:
				t.Fatalf("%v: it was accepted twice", life)
			case s == queue.Error && before != queue.Running:
				t.Fatalf("%v: an error without an attempt", life)
			case s == queue.Retry && before != queue.Error:
				t.Fatalf("%v: a retry without an error", life)
			}
		}
		if state != queue.Final && queue.CheckTransition(state, queue.Final) != nil {
			t.Fatalf("%v: it can't end", life)
		}
	})
}
