//go:build unix

package view

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean removes what could control a terminal: other clients have written it.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, s)
}

// mostText is how much is kept of a text that another client has written, in bytes. lastText is how
// much of that is the end: see Nested.
const (
	mostText = 256
	lastText = 40
)

// Brief returns a text of another client, cleaned, and without its middle if it is long.
func Brief[T string | []byte](s T) string {
	if len(s) <= mostText {
		return Clean(string(s))
	}
	first, last := s[:mostText-lastText], s[len(s)-lastText:]
	return Clean(strings.ToValidUTF8(string(first), "") + "…" + strings.ToValidUTF8(string(last), ""))
}

// Printable returns data as text of several lines that controls neither a terminal nor the order of
// letters on a page: what is not printable is escaped, and so are bytes that are not UTF-8.
func Printable(data []byte) string {
	var b strings.Builder
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		if isBroken := r == utf8.RuneError && n == 1; !isBroken && (r == '\n' || r == '\t' || unicode.IsPrint(r)) {
			b.WriteRune(r)
		} else {
			quoted := strconv.QuoteToASCII(string(data[:n]))
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		data = data[n:]
	}
	return b.String()
}

// Count returns a number with its noun, or with a noun and its verb.
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n) + " " + many
}

// shellWord returns a text as a word of a shell. Other clients choose paths and places.
func shellWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/_.:@-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
