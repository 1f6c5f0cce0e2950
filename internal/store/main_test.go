package store_test

import (
	"os"
	"testing"

	"github.com/hipq/hipq/internal/dbtest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m, "emails")) }
