package cmd

import (
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
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
	var drawn, trimmed strings.Builder
	if err := t.draw(&drawn); err != nil {
		return err
	}
	t.headed, t.page = true, t.page[:0]
	for line := range strings.Lines(drawn.String()) { // the last cell of a line is padded too
		trimmed.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return t.out.put(trimmed.String()) // cells are clean except for their colours
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

// cells are the shown cells of a row, cut to fit.
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
