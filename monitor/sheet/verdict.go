package sheet

import (
	"cmp"
	"slices"

	"github.com/hipq/hipq/internal/texts"
)

// verdict is whether all is well, in one sentence, and what is not.
type verdict struct {
	Class, Sentence string
	Findings        []findingView
}

type findingView struct{ Class, Word, Text, Remedy string }

func (s Sheet) verdict() *verdict {
	if !s.Judged {
		return nil
	}
	findings := slices.Clone(s.Findings)
	slices.SortStableFunc(findings, func(a, b Finding) int { return cmp.Compare(rank(a), rank(b)) })
	v := verdict{Class: "well", Sentence: "All is well."}
	var critical int64
	for _, f := range findings {
		shown := findingView{"warning", "Warning", texts.Clip(f.Text, maxSentence), command(f.Remedy)}
		if f.Critical {
			shown.Class, shown.Word = "critical", "Critical"
			critical++
		}
		v.Findings = append(v.Findings, shown)
	}
	warnings := int64(len(findings)) - critical
	switch {
	case critical > 0 && warnings > 0:
		v.Class = "critical"
		v.Sentence = "Not all is well: " + plural(critical, "thing is", "things are") + " critical, and " +
			plural(warnings, "wants", "want") + " a look."
	case critical > 0:
		v.Class, v.Sentence = "critical", "Not all is well: "+plural(critical, "thing is", "things are")+" critical."
	case warnings > 0:
		v.Class, v.Sentence = "warning", "Nothing is critical, but "+plural(warnings, "thing wants", "things want")+" a look."
	}
	return &v
}

func rank(f Finding) int {
	if f.Critical {
		return 0
	}
	return 1
}
