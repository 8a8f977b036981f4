// Package markdown reads what the tests check in the repository's documents: blocks of
// code, links, and the anchors of headings. It knows the part of Markdown that the
// documents use.
package markdown

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// Document is what a text contains.
type Document struct {
	Blocks  []Block
	Links   []Link
	Anchors map[string]bool // as GitHub derives them from the headings
}

// Block is a block of code, fenced or indented.
type Block struct {
	Line     int    // of the first line of code, counted from 1
	Language string // in lower case, empty if the block has none
	Code     []string
}

// Link is the target of a link or an image, as it is written.
type Link struct {
	Line   int
	Target string
}

var (
	fence      = regexp.MustCompile("^[ >]*(```+|~~~+)[ \t]*([^ \t`{]*)")
	heading    = regexp.MustCompile(`^ {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$`)
	codeSpan   = regexp.MustCompile("`+[^`]*`+")
	inlineLink = regexp.MustCompile(`\]\(\s*<?([^)\s>]*)>?(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)`)
	definition = regexp.MustCompile(`^ {0,3}\[[^\]]+\]:\s*<?([^\s>]+)`)
	attribute  = regexp.MustCompile(`<(?:a|img|source)\b[^>]*?\b(?:href|src|srcset)="([^"]*)"`)
	named      = regexp.MustCompile(`<[a-z0-9]+\b[^>]*?\b(?:id|name)="([^"]*)"`)
	linkText   = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
)

// Parse reads a document.
func Parse(text string) *Document {
	d := &Document{Anchors: map[string]bool{}}
	var open string // the fence that ends the block at hand
	var indented bool
	blank := true
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if open != "" {
			if end := strings.TrimLeft(line, " >"); strings.HasPrefix(end, open) && strings.Trim(end, open[:1]+" \t") == "" {
				open = ""
				continue
			}
			last := &d.Blocks[len(d.Blocks)-1]
			last.Code = append(last.Code, line)
			continue
		}
		if m := fence.FindStringSubmatch(line); m != nil {
			open, indented, blank = m[1], false, true
			d.Blocks = append(d.Blocks, Block{Line: i + 2, Language: strings.ToLower(m[2])})
			continue
		}
		empty := strings.TrimSpace(line) == ""
		code := strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "\t")
		switch {
		case indented && (code || empty):
			last := &d.Blocks[len(d.Blocks)-1]
			last.Code = append(last.Code, line)
		case code && blank && !strings.Contains(line, "`"): // else text of a list
			indented = true
			d.Blocks = append(d.Blocks, Block{Line: i + 1, Code: []string{line}})
		default:
			indented = false
		}
		blank = empty
		if !indented {
			d.text(i+1, line)
		}
	}
	return d
}

// text finds links and anchors in a line that is not in a block of code.
func (d *Document) text(number int, line string) {
	if m := heading.FindStringSubmatch(line); m != nil {
		base := slug(m[1])
		name := base
		for n := 1; d.Anchors[name]; n++ {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		d.Anchors[name] = true
	}
	line = codeSpan.ReplaceAllStringFunc(line, func(span string) string { return strings.Repeat("`", len(span)) })
	for _, m := range named.FindAllStringSubmatch(line, -1) {
		d.Anchors[m[1]] = true
	}
	for _, form := range []*regexp.Regexp{inlineLink, definition, attribute} {
		for _, m := range form.FindAllStringSubmatch(line, -1) {
			d.Links = append(d.Links, Link{Line: number, Target: m[1]})
		}
	}
}

// slug is the anchor that GitHub gives to a heading: in lower case, without anything
// but letters, digits, underscores and hyphens, and with hyphens for spaces.
func slug(text string) string {
	text = linkText.ReplaceAllString(text, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ' || r == '-':
			return '-'
		case r == '_' || unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsNumber(r):
			return unicode.ToLower(r)
		default:
			return -1
		}
	}, text)
}

// LooksLikeGo reports whether a block without a language seems to be Go code.
func (b Block) LooksLikeGo() bool {
	if b.Language != "" {
		return false
	}
	for _, line := range b.Code {
		if strings.Contains(line, ":=") || strings.Contains(line, "func ") {
			return true
		}
	}
	return false
}
