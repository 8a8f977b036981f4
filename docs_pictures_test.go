package zkrecipes_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// To draw them, run make pictures.
func TestPicturesAreDrawnFromTheTextsBesideThem(t *testing.T) {
	pictures, err := filepath.Glob("docs/pictures/*.svg")
	require.NoError(t, err)
	drawn := map[string]bool{}
	for _, kind := range []string{".dot", ".msc"} {
		texts, err := filepath.Glob("docs/pictures/*" + kind)
		require.NoError(t, err)
		require.NotEmpty(t, texts)
		for _, name := range texts {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			picture := strings.TrimSuffix(name, kind) + ".svg"
			svg, err := os.ReadFile(picture)
			require.NoError(t, err)
			require.Contains(t, string(svg), fmt.Sprintf("<!-- %s sha256:%x -->", filepath.Base(name), sha256.Sum256(text)))
			drawn[picture] = true
		}
	}
	for _, picture := range pictures {
		require.Contains(t, drawn, picture, "which has no text")
	}
}
