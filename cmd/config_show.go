package cmd

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/config"
)

const configShowLong = `Prints each setting of the configuration, what holds for it, and who said so: FILE:LINE, the name of an environment
variable, a flag, or default. What a queue or a job type has from an outer level is shown with the place where that is set.
The database isn't asked.

The DSN's password is hidden, as are values of handlers' variables and whatever else looks like a password; arguments of
handlers are shown, for while they run everybody on the host can see them.

With the flags of hipq work it shows what would hold there. With --json it prints a list of {"key", "value", "from"}.

Exit codes: 0 done · 64 usage · 78 configuration.`

func (a *app) configShowCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "show",
		Short:   "Show what holds for each setting, and who said so",
		Long:    configShowLong,
		Example: "  hipq config show | grep timeout\n  hipq config show --concurrency 8 --json",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runConfigShow(cmd) },
	}
	settingFlags(c.Flags())
	return c
}

func (a *app) runConfigShow(cmd *cobra.Command) error {
	settings, err := config.Explain(a.loadOptions(cmd))
	if err != nil {
		return err
	}
	if a.json {
		type setting struct {
			Key   string `json:"key"`
			Value any    `json:"value"`
			From  string `json:"from"`
		}
		list := make([]setting, len(settings))
		for i, s := range settings {
			list[i] = setting(s)
		}
		return a.printJSON(list)
	}
	const most = 40 // a longer value moves what is behind it
	rows, keys, values := make([][2]string, len(settings)), len("KEY"), len("VALUE")
	for i, s := range settings {
		if rows[i], err = settingCells(s); err != nil {
			return err
		}
		keys = max(keys, utf8.RuneCountInString(s.Key))
		if n := utf8.RuneCountInString(rows[i][1]); n <= most {
			values = max(values, n)
		}
	}
	a.out.line("%-*s  %-*s  %s", keys, "KEY", values, "VALUE", "FROM")
	for i, s := range settings {
		a.out.line("%-*s  %-*s  %s", keys, rows[i][0], values, rows[i][1], s.From)
	}
	return nil
}

// settingCells are the key and the value of a setting for people: none is a dash, lists are as in YAML's flow style.
func settingCells(s config.Setting) (cells [2]string, err error) {
	text := dash("")
	switch value := s.Value.(type) {
	case nil:
	case string:
		text = value
	default:
		var written strings.Builder
		e := json.NewEncoder(&written)
		e.SetEscapeHTML(false)
		err = e.Encode(value)
		text = strings.TrimSuffix(written.String(), "\n")
	}
	return [2]string{oneLine(s.Key), oneLine(text)}, err
}
