package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// edit replaces text in one declaration.
type edit struct {
	// in names a method (place.leave), a function, a type, a constant or a variable, in
	// whichever file and package it is. The name of the package may come first
	// (queuelog.Log.saw).
	in string

	// old is what new replaces. It occurs once in what has that name. How its lines are
	// indented does not matter.
	old, new string

	// imports are packages that new needs and the file does not import. Imports that
	// are no longer used need no mention.
	imports []string
}

// span is a part of a file, and what replaces it.
type span struct {
	from, to int
	text     string
}

// apply returns the files that the edits change, by path from the root, as they are then.
func (src *source) apply(edits []edit) (map[string]string, error) {
	spans := map[string][]span{}
	for _, e := range edits {
		file, s, err := src.locate(e)
		if err != nil {
			return nil, err
		}
		spans[file] = append(spans[file], s)
		for _, path := range e.imports {
			spans[file] = append(spans[file], addImport(src.files[file], path))
		}
	}
	changed := map[string]string{}
	for file, spans := range spans {
		text, err := replace(src.files[file], spans)
		if err == nil {
			text, err = dropImports(src.files[file], text)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		changed[file] = text
	}
	return changed, nil
}

// locate finds the text that the edit replaces.
func (src *source) locate(e edit) (file string, s span, err error) {
	decls := src.decls[e.in]
	if len(decls) == 0 {
		return "", span{}, fmt.Errorf("nothing is named %s", e.in)
	}
	old := strings.TrimSpace(e.old)
	if old == "" {
		return "", span{}, fmt.Errorf("no text to replace in %s", e.in)
	}
	lines := strings.Split(old, "\n")
	for i, line := range lines {
		lines[i] = regexp.QuoteMeta(strings.TrimSpace(line))
	}
	pattern := regexp.MustCompile(strings.Join(lines, `\n[ \t]*`))
	n := 0
	for _, d := range decls {
		for _, found := range pattern.FindAllStringIndex(src.files[d.file][d.from:d.to], -1) {
			n++
			file, s = d.file, span{d.from + found[0], d.from + found[1], strings.TrimSpace(e.new)}
		}
	}
	if n != 1 {
		return "", span{}, fmt.Errorf("%s has this text %d times, not once:\n%s", e.in, n, old)
	}
	return file, s, nil
}

// replace returns the text with the spans replaced.
func replace(text string, spans []span) (string, error) {
	slices.SortFunc(spans, func(a, b span) int { return a.from - b.from })
	var out strings.Builder
	end := 0
	for _, s := range spans {
		if s.from < end {
			return "", fmt.Errorf("two edits overlap at %q", text[s.from:s.to])
		}
		out.WriteString(text[end:s.from] + s.text)
		end = s.to
	}
	return out.String() + text[end:], nil
}

// addImport imports a package on the line of the package clause, so that the numbers of
// the lines stay.
func addImport(file, path string) span {
	at := packageClause.FindStringIndex(file)[1]
	return span{at, at, "; import " + strconv.Quote(path)}
}

var packageClause = regexp.MustCompile(`(?m)^package \w+`)

// dropImports blanks the imports of a file that were used before and are not now.
func dropImports(before, now string) (string, error) {
	_, was, err := uses(before)
	if err != nil {
		return "", err
	}
	file, is, err := uses(now)
	if err != nil {
		return "", err
	}
	var blanks []span
	for _, spec := range file.Imports {
		name := importName(spec)
		if !was[name] || is[name] {
			continue
		}
		from := int(spec.Pos()) - int(file.FileStart)
		blanks = append(blanks, span{from, int(spec.Path.Pos()) - int(file.FileStart), "_ "})
	}
	return replace(now, blanks)
}

// uses parses a file and returns the names before a dot in it, those of packages among them.
func uses(text string) (*ast.File, map[string]bool, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, err
	}
	names := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := selector.X.(*ast.Ident); ok {
				names[id.Name] = true
			}
		}
		return true
	})
	return file, names, nil
}

func importName(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	path := strings.Trim(spec.Path.Value, `"`)
	return path[strings.LastIndex(path, "/")+1:]
}
