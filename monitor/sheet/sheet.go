// Package sheet makes the report as one HTML page, which needs nothing but itself: no script, no network, no other file.
package sheet

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"time"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/monitor"
)

// Sheet is what the page tells. What is empty it leaves out.
type Sheet struct {
	// Instance is the name of the instance.
	Instance string
	// Made is when the page is made, and Zone that of all its times.
	Made time.Time
	Zone *time.Location
	// Report has the sums of the windows that end with an hour, and the hours of the longest of them.
	Report monitor.Report
	// Judged says that it was looked for what is not well. Findings is what was found.
	Judged   bool
	Findings []Finding
	// Trends are sentences about what has changed.
	Trends    []string
	Incidents []Incident
	Hosts     []Host
	Throttles []Throttle
}

// Finding is something that is not well.
type Finding struct {
	Critical bool
	// Text is a sentence, and Remedy, if there is one, the command that helps or looks further.
	Text, Remedy string
}

// Incident is a number of failed jobs of one type whose errors are alike.
type Incident struct {
	Queue, JobType string
	Jobs           int64
	First, Last    time.Time
	// Error is that of one of them, and Show the command that tells all about it.
	Error, Show string
	// Retry and Dismiss are the commands for all of them.
	Retry, Dismiss string
}

// Host is a machine that starts workers.
type Host struct {
	Name string
	// Ticks is how many have started in the week, Idle of them found nothing to do.
	Ticks, Idle int64
	// First is when the first of them did.
	First time.Time
	// Gaps are the times, in their order, in which none did for long.
	Gaps []Gap
}

// Gap is a time without a tick.
type Gap struct{ From, To time.Time }

// Throttle is how much of a queue's limit is taken.
type Throttle struct {
	Queue       string
	Used, Limit int64
}

//go:embed sheet.html sheet.css
var files embed.FS

var page = template.Must(template.ParseFS(files, "sheet.html", "sheet.css"))

// Write writes the page. What it tells of jobs and errors is text, whatever they hold, and cut where it is long.
func (s Sheet) Write(w io.Writer) error {
	var b bytes.Buffer
	if err := page.ExecuteTemplate(&b, "sheet.html", s.view()); err != nil {
		return fmt.Errorf("make the page: %w", err)
	}
	_, err := io.WriteString(w, texts.Visible(b.String()))
	return err
}
