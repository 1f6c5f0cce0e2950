package cmd

import "sync"

// warningsMost is how many warnings a command prints: somebody may have written any number of rows that are worth one.
const warningsMost = 20

// warnings are those that a command has printed.
type warnings struct {
	mu   sync.Mutex
	said map[string]bool
}

// warn tells people of what a command goes on without, once.
func (a *app) warn(err error) {
	a.warned.mu.Lock()
	defer a.warned.mu.Unlock()
	text := err.Error()
	if a.warned.said == nil {
		a.warned.said = map[string]bool{}
	}
	if a.warned.said[text] || len(a.warned.said) > warningsMost {
		return
	}
	if a.warned.said[text] = true; len(a.warned.said) > warningsMost {
		text = "there are more such warnings, which are not shown"
	}
	a.printWarning(text)
}

func (a *app) printWarning(text string) {
	if a.json {
		_ = a.err.json(map[string]string{"warning": text}) // a warning changes nothing
		return
	}
	a.err.line("hipq: warning: %s", text)
}
