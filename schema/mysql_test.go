package schema

import "testing"

func TestOlder(t *testing.T) {
	for version, want := range map[string]bool{
		"10.6.18-MariaDB-log": true, "5.5.5-10.7.1-MariaDB": true, "10.8.0-MariaDB": false, "10.11.6-MariaDB-0+deb12u1": false,
		"11.4.2-MariaDB": false, "8.0.40": false, "8.0.11-TiDB-v8.5.0": false, "MariaDB": false,
	} {
		if got := older(version, "MariaDB", 10, 8); got != want {
			t.Errorf("%s: %v", version, got)
		}
	}
}
