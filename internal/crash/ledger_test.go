package crash

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"time"
)

// entry is a line of the ledger.
type entry struct {
	event string
	jobID
	attempt int
	token   string
	pid     int
	at      time.Time
}

// readLedger reads the lines in the order of their writes. It skips incomplete lines: their handlers were killed during
// the write, before the event.
func readLedger(file string) (ledger []entry, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e entry
		var nanos int64
		line, whole := strings.CutSuffix(lines.Text(), " .")
		if !whole {
			continue
		}
		if _, err := fmt.Sscan(line, &e.event, &e.queue, &e.id, &e.attempt, &e.token, &e.pid, &nanos); err != nil {
			return nil, fmt.Errorf("ledger: %q: %w", line, err)
		}
		e.at = time.Unix(0, nanos).UTC()
		ledger = append(ledger, e)
	}
	return ledger, nil
}
