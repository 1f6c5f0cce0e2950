package cmd

import (
	"slices"

	"github.com/olekukonko/tablewriter/pkg/twwidth"
)

// narrowing is how a table gives way on a terminal that is too narrow for it, by the headings of columns.
type narrowing struct {
	// texts are cut, the widest first; spare are left out where that alone would not do, beginning with the first.
	texts, spare []string
	// gone are those of spare that are left out.
	gone []string
}

const (
	// leastText is how many characters of a text are left at least.
	leastText = 7
	// leastError is leastText of an error: an operator looks for it first. Other texts are cut before it has less than goodError.
	leastError, goodError = 22, 40
	errorHeading          = "ERROR"
	queueHeading          = "QUEUE"
)

func (t *table) narrowing(texts, spare []string) *table {
	t.narrow = narrowing{texts: texts, spare: spare}
	return t
}

// column is one that is shown: its place among all, and how wide it is, with the gap behind it.
type column struct{ at, width int }

// fitted are the columns that are shown. Which they are is decided with the header.
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
	total = t.narrowTo(room, total, shown, func(n int) int { // a part of an error says more than one of a time
		if t.header[n] == errorHeading {
			return least(n)
		}
		return t.leastOf(n)
	})
	t.narrowTo(room, total, shown, least)
	return shown
}

// narrowTo makes columns narrower, the widest first, until all fit or have their least. It returns how wide all are then.
func (t *table) narrowTo(room, total int, shown []column, least func(n int) int) int {
	for total > room {
		widest, most := -1, -1
		for n, c := range shown {
			width := c.width
			if t.header[c.at] == errorHeading && width <= goodError {
				width = 0 // the last
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

// severalQueues says whether rows are of different queues: ids repeat between them, so that the queue's name must stay.
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

// least is how wide the table is when its texts are as narrow as may be.
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
