package cmd

import (
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter/pkg/twwidth"
)

// pageRows is how many rows of a table are laid out at once.
const pageRows = 500

// table prints rows under a header without lines, in pages. Columns are as wide as their widest cell so far, so later
// pages may be wider. Cells are only cut on a terminal that is too narrow.
type table struct {
	out    *output
	header []string
	headed bool
	page   [][]string
	widths []int
	// filled marks columns with content. A terminal omits the others, but in a pipe each column has its place.
	filled []bool
	// texts are the headings of the columns that are cut on a narrow terminal, the widest first. If that isn't enough, spare columns
	// are omitted in order. gone has those.
	texts, spare, gone []string
	err                error
}

func newTable(out *output, header ...string) *table {
	t := &table{out: out, header: header, widths: make([]int, len(header)), filled: make([]bool, len(header))}
	t.widen(header)
	return t
}

// row adds a row. After a failed print it prints no more; err has the error, which end returns.
func (t *table) row(cells ...string) {
	for n := range cells {
		cells[n] = t.out.plain(cell(cells[n]))
		if !t.filled[n] && cells[n] != "" && cells[n] != t.out.plain("–") {
			t.filled[n], t.headed = true, t.headed && !t.out.isTerminal() // a column that fills late needs its heading
		}
	}
	t.widen(cells)
	t.page = append(t.page, cells)
	if len(t.page) == pageRows && t.err == nil {
		t.err = t.print()
	}
}

// end prints the remaining rows, and the header if there were none.
func (t *table) end() error {
	if t.err != nil || t.headed && len(t.page) == 0 {
		return t.err
	}
	return t.print()
}

const columnGap = "  "

func (t *table) widen(cells []string) {
	for n, c := range cells {
		t.widths[n] = max(t.widths[n], twwidth.Width(c)+len(columnGap))
	}
}

func (t *table) print() error {
	shown, rows := t.fitted(), t.page
	if !t.headed {
		rows = slices.Concat([][]string{t.header}, rows)
	}
	var text strings.Builder
	for _, row := range rows {
		text.WriteString(t.line(row, shown) + "\n")
	}
	t.headed, t.page = true, t.page[:0]
	return t.out.put(text.String()) // cells are clean except for their colours
}

// line is a row with the shown cells, cut and padded to fit.
func (t *table) line(row []string, shown []column) string {
	var line strings.Builder
	for _, c := range shown {
		cell := row[c.at]
		if room := c.width - len(columnGap); twwidth.Width(cell) > room {
			cell = twwidth.Truncate(cell, room, t.out.plain("…"))
		}
		padding := strings.Repeat(" ", c.width-twwidth.Width(cell))
		if t.header[c.at] == "STATE" {
			cell = t.out.paint(cell)
		}
		line.WriteString(cell + padding)
	}
	return strings.TrimRight(line.String(), " ")
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
	t.texts, t.spare = texts, spare
	return t
}

// column is a shown column: its index, and its width with the gap after it.
type column struct{ at, width int }

// fitted are the shown columns, chosen when the header is printed.
func (t *table) fitted() []column {
	room := t.out.columns()
	if !t.headed && room > 0 {
		for _, name := range t.spare {
			if t.least() <= room {
				break
			}
			if name == queueHeading && t.severalQueues() {
				t.texts = append(slices.Clone(t.texts), name)
				continue
			}
			t.gone = append(t.gone, name)
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
	for ; total > room; total-- {
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
	}
	return total
}

// severalQueues reports whether rows are of different queues. Ids repeat between queues, so the queue's name must stay.
func (t *table) severalQueues() bool {
	at, names := slices.Index(t.header, queueHeading), map[string]bool{}
	for _, row := range t.page {
		names[row[at]] = true
	}
	delete(names, t.out.plain("–")) // a worker's entry
	return len(names) > 1
}

func (t *table) isLeftOut(n int) bool {
	return slices.Contains(t.gone, t.header[n]) || !t.filled[n] && len(t.page) > 0 && t.out.isTerminal()
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
	case !slices.Contains(t.texts, name):
		return t.widths[n]
	case name == errorHeading:
		least = leastError
	}
	return min(t.widths[n], max(least, twwidth.Width(t.header[n]))+len(columnGap))
}
