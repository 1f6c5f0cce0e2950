package cmd

import (
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
		t.widths[n] = max(t.widths[n], twwidth.Width(c)+len(columnGap))
	}
}

func (t *table) print() error {
	var drawn, trimmed strings.Builder
	if err := t.draw(&drawn); err != nil {
		return err
	}
	t.headed, t.page = true, t.page[:0]
	for line := range strings.Lines(drawn.String()) { // the last cell of a line is padded like the others
		trimmed.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return t.out.put(trimmed.String()) // its cells are clean, but for their colours
}

func (t *table) draw(to *strings.Builder) error {
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
		page.Header(t.cells(t.header, shown))
	}
	for _, row := range t.page {
		if err := page.Append(t.cells(row, shown)); err != nil {
			return err
		}
	}
	return page.Close()
}

// cells are those of a row that are shown, cut where they must be.
func (t *table) cells(row []string, shown []column) []string {
	cells := make([]string, len(shown))
	for n, c := range shown {
		cells[n] = row[c.at]
		if room := c.width - len(columnGap); twwidth.Width(cells[n]) > room {
			cells[n] = twwidth.Truncate(cells[n], room, t.out.plain("…"))
		}
		if t.header[c.at] == "STATE" {
			cells[n] = t.out.paint(cells[n])
		}
	}
	return cells
}
