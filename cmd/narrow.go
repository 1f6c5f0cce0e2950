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

// leastText is how many characters of a text are left at least: jobs and activity fit 80 with it.
const leastText = 7

// narrowing says which columns give way.
func (t *table) narrowing(texts, spare []string) *table {
	t.narrow = narrowing{texts: texts, spare: spare}
	return t
}

// column is one that is shown: its place among all, and how wide it is, with the gap behind it.
type column struct{ at, width int }

type columns []column

// fitted are the columns that are shown. Which they are is decided with the header.
func (t *table) fitted() columns {
	room := t.out.columns()
	if !t.headed && room > 0 {
		for _, name := range t.narrow.spare {
			if t.least() <= room {
				break
			}
			t.narrow.gone = append(t.narrow.gone, name)
		}
	}
	var shown columns
	total := -len(columnGap)
	for n, width := range t.widths {
		if !slices.Contains(t.narrow.gone, t.header[n]) {
			shown, total = append(shown, column{n, width}), total+width
		}
	}
	for room > 0 && total > room {
		widest := -1
		for n, c := range shown {
			if c.width > t.leastOf(c.at) && (widest < 0 || c.width > shown[widest].width) {
				widest = n
			}
		}
		if widest < 0 {
			break
		}
		shown[widest].width--
		total--
	}
	return shown
}

// least is how wide the table is when its texts are as narrow as may be.
func (t *table) least() int {
	total := -len(columnGap)
	for n, name := range t.header {
		if !slices.Contains(t.narrow.gone, name) {
			total += t.leastOf(n)
		}
	}
	return total
}

func (t *table) leastOf(n int) int {
	if !slices.Contains(t.narrow.texts, t.header[n]) {
		return t.widths[n]
	}
	return min(t.widths[n], max(leastText, twwidth.Width(t.header[n]))+len(columnGap))
}

// of gives the cells of a row that are shown.
func (cs columns) of(row []string) []string {
	cells := make([]string, len(cs))
	for n, c := range cs {
		cells[n] = row[c.at]
		if room := c.width - len(columnGap); twwidth.Width(cells[n]) > room {
			cells[n] = twwidth.Truncate(cells[n], room, "…")
		}
	}
	return cells
}
