package proof

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/hipq/hipq/internal/dbtest"
)

// fault is a line of the proof's ledger: what was injected, and what was found at the end of its round.
type fault struct {
	Turn  string    `json:"turn"`
	Round int       `json:"round"`
	Seed  uint64    `json:"seed"`
	At    time.Time `json:"at"`
	What  string    `json:"what"`
	Found []string  `json:"found"`
}

// ending is the ledger's last line of a turn. A turn without one has not ended, and runs again.
type ending struct {
	Ended   string  `json:"ended"`
	Rounds  int     `json:"rounds"`
	Faults  int     `json:"faults"`
	Jobs    int     `json:"jobs"`
	Bad     int     `json:"violations"`
	Seconds float64 `json:"seconds"`
	Version string  `json:"version"`
	Commit  string  `json:"commit"`
	// Notes are what a turn measured.
	Notes []string `json:"notes,omitempty"`
}

// record appends lines to the ledger.
func record(t *testing.T, lines ...any) {
	t.Helper()
	if *ledgerFlag == "" {
		return
	}
	f := dbtest.Must(os.OpenFile(*ledgerFlag, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644))(t)
	defer f.Close()
	for _, l := range lines {
		dbtest.OK(t, json.NewEncoder(f).Encode(l))
	}
}
