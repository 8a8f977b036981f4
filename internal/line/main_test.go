package line_test

import (
	"os"
	"testing"

	"github.com/zkrecipes/zkrecipes/internal/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }
