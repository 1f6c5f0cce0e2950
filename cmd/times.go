package cmd

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/config"
	"github.com/hipq/hipq/schema"
)

const (
	// timeUsage is what each flag takes that is a time.
	timeUsage = "2026-12-31T23:00:00Z; '2026-12-31 23:00', 23:00 or 'tomorrow 09:00' in the config's zone; +90s, -1h"
	// agoUsage is what each takes that is a time in the past.
	agoUsage = "90s, 2h, 1d ago; or a time as --at of hipq enqueue takes it"
)

// time reads what a flag has been given, by the config's zone and the database's clock. It is zero if that is nothing.
func (i *instance) time(cmd *cobra.Command, flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := i.parseTime(cmd, text)
	if trouble, _ := schema.Diagnose(err); err == nil || trouble != schema.NoTrouble {
		return t, err
	}
	return t, usagef("%s: %w", flag, err)
}

func (i *instance) parseTime(cmd *cobra.Command, text string) (time.Time, error) {
	return config.ParseTime(text, i.Location, func() (time.Time, error) { return i.db.Clock(cmd.Context()) })
}

// ago reads what a flag has been given that may also be how long ago.
func (i *instance) ago(cmd *cobra.Command, flag, text string) (time.Time, error) {
	switch _, err := config.ParseDuration(text); {
	case err == nil:
		text = "-" + text
	case strings.Trim(text, "0123456789") == "" && text != "":
		return time.Time{}, usagef("%s: %w", flag, err)
	}
	return i.time(cmd, flag, text)
}

// durationFlag reads what a flag has been given; none is 0.
func durationFlag(name, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := config.ParseDuration(text)
	if err != nil {
		return 0, usagef("%s: %w", name, err)
	}
	return d, nil
}
