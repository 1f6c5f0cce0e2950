package cmd

import (
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
)

// TestFindingOfNotice: a notice names its finding, also if the job type ends with a blank, as a misspelt one may.
func TestFindingOfNotice(t *testing.T) {
	for _, f := range []found{
		{"0123abcd", "critical", "no_tick", "", ""},
		{"0123abcd", "warning", "backlog", "emails", ""},
		{"0123abcd", "warning", "oldest_due", "emails", "send"},
		{"0123abcd", "warning", "oldest_due", "emails", "send "},
		{"0123abcd", "warning", "oldest_due", "emails", "send a letter"},
	} {
		dbtest.Same(t, foundOf(f.notice("finding")), f)
	}
}
