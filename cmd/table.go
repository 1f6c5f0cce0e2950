package cmd

import (
	"bytes"
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

// draw lays out a page.
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
