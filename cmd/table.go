package cmd

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// pageRows is how many rows of a table are laid out at once, and kept until then.
const pageRows = 500

// table prints rows under a header, without lines: easy to read, and to cut by a script that must. It does so in pages: a
// column is as wide as its widest cell so far, so that a page may be wider than those before it, and nothing is cut, but on a
// terminal that is too narrow.
type table struct {
	out    *output
	header []string
	// headed says that the header is printed.
	headed bool
	page   [][]string
	widths []int
	narrow narrowing
}

func newTable(out *output, header ...string) *table {
	t := &table{out: out, header: header, widths: make([]int, len(header))}
	t.widen(header)
	return t
}

// row adds a row. It fails if a page can't be printed, and so can't any other.
func (t *table) row(cells ...string) error {
	for n := range cells {
		cells[n] = cell(cells[n])
	}
	t.widen(cells)
	t.page = append(t.page, cells)
	if len(t.page) < pageRows {
		return nil
	}
	return t.print()
}

// end prints what isn't yet: the header at least.
func (t *table) end() error {
	if t.headed && len(t.page) == 0 {
		return nil
	}
	return t.print()
}

const columnGap = "  "

func (t *table) widen(cells []string) {
	for n, c := range cells {
		t.widths[n] = max(t.widths[n], width(c)+len(columnGap))
	}
}

func (t *table) print() error {
	shown := t.fitted()
	var page strings.Builder
	if !t.headed {
		shown.draw(&page, t.header)
	}
	for _, row := range t.page {
		shown.draw(&page, row)
	}
	t.headed, t.page = true, t.page[:0]
	_, err := io.WriteString(t.out, page.String())
	return err
}

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
	return min(t.widths[n], max(leastText, width(t.header[n]))+len(columnGap))
}

// draw writes a row on a line, without blanks at its end.
func (cs columns) draw(to *strings.Builder, row []string) {
	var line strings.Builder
	for _, c := range cs {
		text := cut(row[c.at], c.width-len(columnGap))
		line.WriteString(text + strings.Repeat(" ", max(0, c.width-width(text))))
	}
	to.WriteString(strings.TrimRight(line.String(), " ") + "\n")
}

// width is how many columns of a terminal a text takes.
func width(text string) int {
	if strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return uniseg.StringWidth(text)
	}
	return len(text) // most texts by far
}

// cut shortens a text that is wider than the room for it.
func cut(text string, room int) string {
	if width(text) <= room {
		return text
	}
	short, used := "", 0
	for state := -1; ; {
		var cluster string
		var columns int
		cluster, text, columns, state = uniseg.FirstGraphemeClusterInString(text, state)
		if used += columns; used >= room {
			return short + "…"
		}
		short += cluster
	}
}
