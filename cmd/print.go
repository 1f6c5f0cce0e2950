package cmd

import (
	"bytes"
	"encoding/json"
	"time"
)

// printJSON prints v on one line: the one encoder of all that --json prints.
func (a *app) printJSON(v any) error { return a.out.json(v) }

func (o *output) json(v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := o.Write(escaped(b.Bytes()))
	return err
}

// local is a time for people, in the config's zone, which it names.
func (i *instance) local(t time.Time) string { return zonedTime(t, i.Location) }

func zonedTime(t time.Time, zone *time.Location) string {
	return t.In(zone).Format("2006-01-02 15:04:05 MST")
}

// zoned is the heading of a column of times, which names the config's zone; localCell is a time below it.
func (i *instance) zoned(heading string) string { return heading + " (" + i.Location.String() + ")" }

func (i *instance) localCell(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.In(i.Location).Format("2006-01-02 15:04:05")
}

// maybe is local for a time that may be missing.
func (i *instance) maybe(t *time.Time) string {
	if t == nil {
		return i.local(time.Time{})
	}
	return i.local(*t)
}

// dash is how people see what isn't there.
func dash(s string) string {
	if s == "" || s == "NONE" {
		return "–"
	}
	return s
}

// utc is a time for programs; the zero time is null.
func utc(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// millis is a duration for people.
func millis(ms int64) string {
	return (time.Duration(ms) * time.Millisecond).Round(time.Millisecond).String()
}
