package cmd

import (
	"bytes"
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
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
	narrow narrowing
	err    error
}

func newTable(out *output, header ...string) *table {
	t := &table{out: out, header: header, widths: make([]int, len(header))}
	t.widen(header)
	return t
}

// row adds a row. Once a page can't be printed, none is: err says why, and end.
func (t *table) row(cells ...string) {
	for n := range cells {
		cells[n] = cell(cells[n])
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
		t.widths[n] = max(t.widths[n], twwidth.Width(c)+len(columnGap))
	}
}

func (t *table) print() error {
	var drawn bytes.Buffer
	if err := t.draw(&drawn); err != nil {
		return err
	}
	t.headed, t.page = true, t.page[:0]
	var trimmed bytes.Buffer // the last cell of a line is padded like the others
	for line := range strings.Lines(drawn.String()) {
		trimmed.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	_, err := t.out.Write(trimmed.Bytes())
	return err
}

func (t *table) draw(to *bytes.Buffer) error {
	shown := t.fitted()
	widths := tw.NewMapper[int, int]()
	for n, c := range shown {
		widths.Set(n, c.width)
	}
	padding := tw.CellPadding{Global: tw.Padding{Right: columnGap}}
	page := tablewriter.NewTable(to,
		tablewriter.WithRenderer(renderer.NewBlueprint(tw.Rendition{
			Borders:  tw.BorderNone,
			Settings: tw.Settings{Lines: tw.LinesNone, Separators: tw.SeparatorsNone},
		})),
		tablewriter.WithConfig(tablewriter.Config{
			Stream: tw.StreamConfig{Enable: true},
			Widths: tw.CellWidth{PerColumn: widths},
			Header: tw.CellConfig{
				Alignment:  tw.CellAlignment{Global: tw.AlignLeft},
				Formatting: tw.CellFormatting{AutoFormat: tw.Off, AutoWrap: tw.WrapTruncate},
				Padding:    padding,
			},
			Row: tw.CellConfig{
				Alignment:  tw.CellAlignment{Global: tw.AlignLeft},
				Formatting: tw.CellFormatting{AutoWrap: tw.WrapTruncate},
				Padding:    padding,
			},
		}))
	if err := page.Start(); err != nil {
		return err
	}
	if !t.headed {
		page.Header(shown.of(t.header))
	}
	for _, row := range t.page {
		if err := page.Append(shown.of(row)); err != nil {
			return err
		}
	}
	return page.Close()
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
