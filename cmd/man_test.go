package cmd

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/internal/dbtest"
)

// Each visible command has a page like its help: crontab lines don't become lists. The same date gives the same pages.
func TestMan(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	pages := manPages(t)
	var want []string
	_ = eachCommand(Root(), func(c *cobra.Command) error {
		want = append(want, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1")
		return nil
	})
	slices.Sort(want)
	dbtest.Same(t, slices.Sorted(maps.Keys(pages)), want, "pages of commands")
	dbtest.Ensure(t, len(want) >= 20, "only these commands: %v", want)
	for name, words := range map[string][]string{
		"hipq.1":            {"\n* * * * *          hipq work      runs due jobs\n", "Exit codes: 0 done", "Nov 2023"},
		"hipq-config.1":     {"Files: ", "Environment: "},
		"hipq-enqueue.1":    {"job_type", "hipq enqueue \\-\\-ndjson jobs.ndjson", "\\fB\\-\\-on-duplicate"},
		"hipq-completion.1": {"source <(hipq completion bash)"},
		"hipq-purge.1":      {"with \\-\\-dry-run: there is nothing to delete", "\n.SH SEE ALSO\n\\fBhipq(1)\\fP"},
	} {
		for _, w := range words {
			dbtest.Ensure(t, strings.Contains(pages[name], w), "%s doesn't have %q:\n%s", name, w, pages[name])
		}
	}
	dbtest.Ensure(t, maps.Equal(pages, manPages(t)), "two runs give different pages")
}

func manPages(t *testing.T) map[string]string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "share", "man1")
	dbtest.OK(t, writeMan(dir))
	entries := dbtest.Must(os.ReadDir(dir))(t)
	pages := map[string]string{}
	for _, e := range entries {
		text := dbtest.Must(os.ReadFile(filepath.Join(dir, e.Name())))(t)
		pages[e.Name()] = string(text)
	}
	return pages
}
