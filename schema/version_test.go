package schema

import (
	"errors"
	"strings"
	"testing"
)

func TestVersions(t *testing.T) {
	for version, want := range map[string]string{
		"10.6.0-MariaDB": "", "5.5.5-10.11.19-MariaDB-log": "", "8.0.13": "", "9.7.4": "", "8.4.0-35.1": "",
		"10.5.27-MariaDB":              "MariaDB 10.5.27, hipq needs 10.6.0 or newer",
		"8.0.12":                       "MySQL 8.0.12, hipq needs 8.0.13 or newer",
		"5.7.25-TiDB-v7.5.0":           "TiDB",
		"8.4.6-Vitess":                 "Vitess",
		"8.0.30-Vitess":                "docs/explanation/scaling.md",
		"8.0.11-TiDB-v9.0.0-dev-dirty": "TiDB",
	} {
		err := checkVersion(version)
		if want == "" && err != nil {
			t.Errorf("%s: %v", version, err)
		}
		if want != "" && (!errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", version, err)
		}
	}
}
