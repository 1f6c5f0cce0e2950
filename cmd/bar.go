package cmd

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// startBar shows a person at a terminal how far a command has come, on standard error, until endBar: a bar if it is
// known how many there are to do, else (with 0) their number. A pipe, a file, cron, a terminal that can't rewrite a line and
// --json have none of it.
func (a *app) startBar(what string, all int) {
	terminal := a.err.terminal()
	if terminal == nil || a.json || !canRewrite() {
		return
	}
	most := int64(all)
	if all == 0 {
		most = -1
	}
	bar := progressbar.NewOptions64(most,
		progressbar.OptionSetWriter(terminal),
		progressbar.OptionSetDescription("hipq "+what),
		progressbar.OptionShowCount(),
		progressbar.OptionSetWidth(20),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetElapsedTime(all == 0),
		progressbar.OptionUseANSICodes(false), // blanks do as well
		progressbar.OptionClearOnFinish())
	a.err.bar = bar
	if a.onTerminal() {
		a.out.bar = bar
	}
}

// moveBar says how many are done by now.
func (a *app) moveBar(n int) {
	if a.err.bar != nil {
		_ = a.err.bar.Set(n) // who doesn't see it sees the end
	}
}

// endBar leaves the terminal as if there had been no bar.
func (a *app) endBar() {
	if a.err.bar != nil {
		_ = a.err.bar.Clear() // it is gone, or the terminal is
	}
	a.err.bar, a.out.bar = nil, nil
}
