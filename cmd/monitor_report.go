package cmd

import (
	"bytes"
	"context"
	"time"

	"github.com/hipq/hipq/monitor"
	"github.com/hipq/hipq/monitor/sheet"
)

// sheetMode is that of a report's file: it quotes errors, which are not for everybody.
const sheetMode = 0o640

// writeSheet writes the report on the hours up to this one as a page, in the place of that which is there.
func (i *instance) writeSheet(ctx context.Context, m *monitor.Monitor, hour time.Time, file string) error {
	s, err := i.sheet(ctx, m, hour)
	if err != nil {
		return err
	}
	var page bytes.Buffer
	if err := s.Write(&page); err != nil {
		return err
	}
	return replaceFile(file, page.Bytes(), sheetMode)
}

// sheet is what the page tells.
func (i *instance) sheet(ctx context.Context, m *monitor.Monitor, hour time.Time) (s sheet.Sheet, err error) {
	s = sheet.Sheet{Instance: i.Name, Zone: i.Location}
	if s.Made, err = i.db.Clock(ctx); err != nil {
		return s, err
	}
	if s.Report, err = m.Report(ctx, hour); err != nil {
		return s, err
	}
	s.Course, err = m.Course(ctx, hour)
	return s, err
}
