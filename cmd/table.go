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
	narrow narrowing
	err    error
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
