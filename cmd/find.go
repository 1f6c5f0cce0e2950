package cmd

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/queue/admin"
	"github.com/hipq/hipq/queue/job"
)

type foundJob struct {
	Queue string `json:"queue"`
	// ID is the job's id.
	ID      int64     `json:"id"`
	JobType string    `json:"job_type"`
	JobKey  string    `json:"job_key"`
	State   job.State `json:"state"`
	// CreateTime is when the job was added.
	CreateTime job.Time `json:"create_time"`
	// In is "id", "key", "error", "data", "result" or "note".
	In string `json:"in"`
	// Text is the text with some of what is around it.
	Text string `json:"text"`
}

func (a *app) findCommand() *cobra.Command {
	s := admin.Search{Within: time.Second / 5}
	var limit int
	c := command("find", func(cmd *cobra.Command, args []string) error {
		switch s.Text = args[0]; {
		case strings.TrimSpace(s.Text) == "" || !utf8.ValidString(s.Text):
			return usagef("%q is not a text to search for", s.Text)
		case limit < 0:
			return usagef("--limit: %d is negative", limit)
		case a.json && !cmd.Flags().Changed("limit"):
			limit = 0
		}
		return a.open(cmd, patient, func(i *instance) error { return a.runFind(cmd, i, s, limit) })
	})
	c.Flags().IntVar(&limit, "limit", 20, "end after N finds (0: search everything; the default for --json)")
	c.Flags().StringVar(&s.After, "after", "", "continue a search that was stopped")
	return c
}

func (a *app) runFind(cmd *cobra.Command, i *instance, s admin.Search, limit int) error {
	queues, err := i.queues(cmd.Context())
	if err != nil {
		return err
	}
	tell, passed, found := a.telling("find"), int64(0), 0
	defer a.endBar()
	for s.Limit = limit; ; s.Limit = limit - found {
		part, err := admin.Find(cmd.Context(), queues, s)
		switch {
		case err != nil && cmd.Context().Err() != nil && s.After != "":
			return advised{errInterrupted, fmt.Sprintf("find: %d found; continue with --after '%s'", found, s.After)}
		case err != nil:
			return err
		}
		a.endBar()
		for _, h := range part.Hits {
			j := h.Job
			err := a.print(foundJob{j.Queue, j.ID, j.Type, j.Key, j.State(), job.Time{Time: j.CreateTime}, h.In, h.Text},
				"%s/%d  %s  %s  %s  %s  %s: %s", j.Queue, j.ID, cell(j.Type), cell(j.Key), j.State(), i.local(j.CreateTime), h.In, cell(h.Text))
			if err != nil {
				return err
			}
		}
		found, passed, s.After = found+len(part.Hits), passed+part.Looked, part.Next
		if s.After == "" || limit > 0 && (found >= limit || found > 0 && passed == 0) {
			break
		}
		tell(passed, passed+part.Left)
	}
	switch {
	case found == 0:
		return fmt.Errorf("find: no job has %q", s.Text)
	case s.After != "" && !a.json:
		a.out.line("--limit 0 searches everything, --after '%s' continues", s.After)
	}
	return nil
}
