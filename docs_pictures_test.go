package zkrecipes_test

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestPicturesAreDrawnFromTheTextsBesideThem(t *testing.T) {
	require.Empty(t, stalePictures(t, os.DirFS("docs/pictures")))
}

func TestTheCheckOfThePicturesFindsWhatIsWrong(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	drawn := func(name, text string) *fstest.MapFile {
		return file(fmt.Sprintf("<svg>\n<!-- %s sha256:%x -->\n</svg>", name, sha256.Sum256([]byte(text))))
	}
	require.Equal(t, []string{
		"changed.svg: changed.dot has changed",
		"new.svg: is missing",
		"orphan.svg: has no text",
	}, stalePictures(t, fstest.MapFS{
		"README.md":   file("no picture"),
		"good.dot":    file("digraph {}"),
		"good.svg":    drawn("good.dot", "digraph {}"),
		"changed.dot": file("digraph { a }"),
		"changed.svg": drawn("changed.dot", "digraph {}"),
		"new.msc":     file("msc {}"),
		"orphan.svg":  drawn("orphan.dot", "digraph {}"),
	}))
}

// stalePictures returns what `make pictures` would change in a folder of pictures.
func stalePictures(t *testing.T, folder fs.FS) (wrong []string) {
	files, err := fs.ReadDir(folder, ".")
	require.NoError(t, err)
	drawnFrom := map[string]string{}
	for _, f := range files {
		if kind := path.Ext(f.Name()); kind == ".dot" || kind == ".msc" {
			drawnFrom[strings.TrimSuffix(f.Name(), kind)+".svg"] = f.Name()
		}
	}
	require.NotEmpty(t, drawnFrom)
	for picture, name := range drawnFrom {
		text, err := fs.ReadFile(folder, name)
		require.NoError(t, err)
		svg, err := fs.ReadFile(folder, picture)
		if err != nil {
			wrong = append(wrong, picture+": is missing")
		} else if !strings.Contains(string(svg), fmt.Sprintf("<!-- %s sha256:%x -->", name, sha256.Sum256(text))) {
			wrong = append(wrong, picture+": "+name+" has changed")
		}
	}
	for _, f := range files {
		if path.Ext(f.Name()) == ".svg" && drawnFrom[f.Name()] == "" {
			wrong = append(wrong, f.Name()+": has no text")
		}
	}
	slices.Sort(wrong)
	return wrong
}
