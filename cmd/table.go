package cmd

import (
	"strings"

	"github.com/clipperhouse/displaywidth"
)

// pageRows is how many rows of a table are laid out at once, and kept until then.
const pageRows = 500

// table prints rows under a header, without lines: easy to read, and to cut by a script that must. It does so in pages: a
// column is as wide as its widest cell so far, so that a page may be wider than those before it, and nothing is cut, but on a
// terminal that is too narrow.
type table struct {
	out    *output
	header []string
	headed bool
	page   [][]string
	widths []int
	// filled says which columns have held anything: the others are left out on a terminal. In a pipe each has its place.
	filled []bool
	narrow narrowing
	err    error
}

func newTable(out *output, header ...string) *table {
	t := &table{out: out, header: header, widths: make([]int, len(header)), filled: make([]bool, len(header))}
	t.widen(header)
	return t
}

// row adds a row. Once a page can't be printed, none is: err says why, and end.
func (t *table) row(cells ...string) {
	for n := range cells {
		cells[n] = t.out.plain(cell(cells[n]))
		if !t.filled[n] && cells[n] != "" && cells[n] != t.out.plain("–") {
			t.filled[n], t.headed = true, t.headed && !t.out.isTerminal() // one that comes late needs its heading
		}
	}
	t.widen(cells)
	t.page = append(t.page, cells)
	if len(t.page) == pageRows && t.err == nil {
		t.err = t.print()
	}
}

// end prints what isn't yet: the header at least.
func (t *table) end() error {
	if t.err != nil || t.headed && len(t.page) == 0 {
		return t.err
	}
	return t.print()
}

const columnGap = "  "

func (t *table) widen(cells []string) {
	for n, c := range cells {
		t.widths[n] = max(t.widths[n], displaywidth.String(c)+len(columnGap))
	}
}

func (t *table) print() error {
	shown := t.fitted()
	var drawn strings.Builder
	if !t.headed {
		t.draw(&drawn, t.header, shown)
	}
	for _, row := range t.page {
		t.draw(&drawn, row, shown)
	}
	t.headed, t.page = true, t.page[:0]
	return t.out.put(drawn.String()) // its cells are clean, but for their colours
}

func (t *table) draw(to *strings.Builder, row []string, shown []column) {
	gap := ""
	for _, c := range shown {
		room := c.width - len(columnGap)
		text := displaywidth.TruncateString(row[c.at], room, t.out.plain("…"))
		if text != "" {
			to.WriteString(gap)
			gap = strings.Repeat(" ", room-displaywidth.String(text)+len(columnGap))
			if t.header[c.at] == "STATE" {
				text = t.out.paint(text)
			}
			to.WriteString(text)
			continue
		}
		gap += strings.Repeat(" ", c.width)
	}
	to.WriteByte('\n')
}
