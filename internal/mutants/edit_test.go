package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// code has a declaration of each kind, and names that two packages declare.
var code = map[string]string{
	"a.go": `package a

import (
	"errors"
	"fmt"
)

const (
	few  = 1
	many = 1
)

type stack[T any] struct {
	items []T
}

func (s *stack[T]) pop() (T, error) {
	if len(s.items) == 0 {
		var none T
		return none, errors.New("empty")
	}
	return s.items[0], nil
}

func show() { fmt.Println("a") }
`,
	"b/b.go":        "package b\n\nfunc show() { println(2) }\n",
	"c/go.mod":      "module example.com/m/c\n",
	"c/c.go":        "package c\n\nfunc show() { println(2) }\n",
	"testdata/d.go": "package d\n\nfunc show() { println(2) }\n",
	"b/b_test.go":   "package b\n\nfunc show2() { println(2) }\n",
}

func TestEditChangesOneDeclaration(t *testing.T) {
	src := module(t, code)
	for name, tt := range map[string]struct {
		edit edit
		file string
		want string
	}{
		"a method of a generic type": {
			edit{in: "stack.pop", old: "== 0", new: "< 0"}, "a.go", "if len(s.items) < 0 {",
		},
		"one of several constants": {
			edit{in: "many", old: "1", new: "100"}, "a.go", "\tfew  = 1\n\tmany = 100\n",
		},
		"a type": {
			edit{in: "stack", old: "items []T", new: "items []T\nn int"}, "a.go", "items []T\nn int\n}",
		},
		"lines with another indentation": {
			edit{in: "stack.pop", old: `
				var none T
				return none, errors.New("empty")`, new: "panic(errors.ErrUnsupported)"}, "a.go", "\t\tpanic(errors.ErrUnsupported)\n\t}",
		},
		"a name of two packages, by the text": {
			edit{in: "show", old: "println(2)"}, "b/b.go", "func show() {  }",
		},
		"a name of two packages, by the package": {
			edit{in: "b.show", old: "2", new: "3"}, "b/b.go", "println(3)",
		},
		"an import that is not used any more": {
			edit{in: "show", old: `fmt.Println("a")`}, "a.go", "import (\n\t\"errors\"\n\t_ \"fmt\"\n)",
		},
		"an import that is missing": {
			edit{in: "show", old: `"a"`, new: "os.Args", imports: []string{"os"}}, "a.go", "package a; import \"os\"\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			changed, err := src.apply([]edit{tt.edit})
			require.NoError(t, err)
			require.Len(t, changed, 1)
			require.Contains(t, changed[tt.file], tt.want)
		})
	}
}

func TestModulesBelowAreReadIfTheyAreNamed(t *testing.T) {
	src := module(t, code)
	_, err := src.apply([]edit{{in: "c.show", old: "2"}})
	require.ErrorContains(t, err, "nothing is named c.show")
	src, err = readSource(src.root, "c")
	require.NoError(t, err)
	changed, err := src.apply([]edit{{in: "c.show", old: "2", new: "3"}})
	require.NoError(t, err)
	require.Contains(t, changed["c/c.go"], "println(3)")
}

func TestEditsOfSeveralFilesAreOneMutant(t *testing.T) {
	changed, err := module(t, code).apply([]edit{
		{in: "stack.pop", old: "[0]", new: "[1]"},
		{in: "b.show", old: "2", new: "3"},
		{in: "few", old: "1", new: "2"},
	})
	require.NoError(t, err)
	require.Len(t, changed, 2)
	require.Contains(t, changed["a.go"], "few  = 2")
	require.Contains(t, changed["a.go"], "s.items[1]")
}

func TestTextThatIsNotThereOnceIsAnError(t *testing.T) {
	src := module(t, code)
	for name, tt := range map[string]struct {
		edits []edit
		want  string
	}{
		"no such name":             {[]edit{{in: "stack.push", old: "x"}}, "nothing is named stack.push"},
		"a name of tests":          {[]edit{{in: "show2", old: "x"}}, "nothing is named show2"},
		"no text":                  {[]edit{{in: "show", new: "x"}}, "no text to replace in show"},
		"a text that is not there": {[]edit{{in: "stack.pop", old: "x > y"}}, "stack.pop has this text 0 times, not once:\nx > y"},
		"a text that is there twice": {
			[]edit{{in: "stack.pop", old: "s.items"}}, "stack.pop has this text 2 times",
		},
		"a text of two packages": {[]edit{{in: "show", old: "ln("}}, "show has this text 2 times"},
		"no Go":                  {[]edit{{in: "b.show", old: "2)", new: "2"}}, "b/b.go: "},
		"edits of the same text": {
			[]edit{{in: "b.show", old: "println(2)"}, {in: "b.show", old: "2"}}, "two edits overlap",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := src.apply(tt.edits)
			require.ErrorContains(t, err, tt.want)
		})
	}
}
