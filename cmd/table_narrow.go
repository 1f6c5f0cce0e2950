package cmd

import (
	"slices"

	"github.com/olekukonko/tablewriter/pkg/twwidth"
)

// narrowing is how a table gets narrower on a narrow terminal, by columns' headings.
type narrowing struct {
	// texts are cut, the widest first. If that isn't enough, spare columns are omitted in order.
	texts, spare []string
	// gone has the spare columns that are omitted.
	gone []string
}

const (
	// leastText is the minimum width of a cut text, in characters.
	leastText = 7
	// leastError is the minimum width of an error. Other texts are cut before an error is below goodError.
	leastError, goodError = 22, 40
	errorHeading          = "ERROR"
	queueHeading          = "QUEUE"
)

func (t *table) narrowing(texts, spare []string) *table {
	t.narrow = narrowing{texts: texts, spare: spare}
	return t
}

// column is a shown column: its index, and its width with the gap after it.
type column struct{ at, width int }

// fitted are the shown columns, chosen when the header is printed.
func (t *table) fitted() []column {
	room := t.out.columns()
	if !t.headed && room > 0 {
		for _, name := range t.narrow.spare {
			if t.least() <= room {
				break
			}
			if name == queueHeading && t.severalQueues() {
				t.narrow.texts = append(slices.Clone(t.narrow.texts), name)
				continue
			}
			t.narrow.gone = append(t.narrow.gone, name)
		}
	}
	var shown []column
	total := -len(columnGap)
	for n, width := range t.widths {
		if !t.isLeftOut(n) {
			shown, total = append(shown, column{n, width}), total+width
		}
	}
	if room == 0 {
		return shown
	}
	total = t.narrowTo(room, total, shown, t.leastOf)
	least := func(n int) int { return min(t.widths[n], leastText+len(columnGap)) }
	total = t.narrowTo(room, total, shown, func(n int) int { // a part of an error says more than a part of a time
		if t.header[n] == errorHeading {
			return least(n)
		}
		return t.leastOf(n)
	})
	t.narrowTo(room, total, shown, least)
	return shown
}

// narrowTo narrows columns, the widest first, until all fit or have their minimum. It returns the total width.
func (t *table) narrowTo(room, total int, shown []column, least func(n int) int) int {
	for total > room {
		widest, most := -1, -1
		for n, c := range shown {
			width := c.width
			if t.header[c.at] == errorHeading && width <= goodError {
				width = 0 // cut it last
			}
			if c.width > least(c.at) && width > most {
				widest, most = n, width
			}
		}
		if widest < 0 {
			break
		}
		shown[widest].width--
		total--
	}
	return total
}

// severalQueues reports whether rows are of different queues. Ids repeat between queues, so the queue's name must stay.
func (t *table) severalQueues() bool {
	at, first := slices.Index(t.header, queueHeading), ""
	for _, row := range t.page {
		switch name := row[at]; {
		case name == t.out.plain("–"): // a worker's entry
		case first == "":
			first = name
		case name != first:
			return true
		}
	}
	return false
}

func (t *table) isLeftOut(n int) bool {
	return slices.Contains(t.narrow.gone, t.header[n]) || !t.filled[n] && len(t.page) > 0 && t.out.isTerminal()
}

// least is the table's width with its texts cut to their minimum.
func (t *table) least() int {
	total := -len(columnGap)
	for n := range t.header {
		if !t.isLeftOut(n) {
			total += t.leastOf(n)
		}
	}
	return total
}

func (t *table) leastOf(n int) int {
	least := leastText
	switch name := t.header[n]; {
	case !slices.Contains(t.narrow.texts, name):
		return t.widths[n]
	case name == errorHeading:
		least = leastError
	}
	return min(t.widths[n], max(least, twwidth.Width(t.header[n]))+len(columnGap))
}
