//go:build unix

package view

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable returns data as text of several lines that controls neither a terminal nor the order of
// letters on a page: what is not printable is escaped, and so are bytes that are not UTF-8.
func Printable(data []byte) string {
	var b strings.Builder
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		isText := r == '\n' || r == '\t' || unicode.IsPrint(r)
		if isBroken := r == utf8.RuneError && n == 1; isBroken || !isText {
			quoted := strconv.QuoteToASCII(string(data[:n]))
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteRune(r)
		}
		data = data[n:]
	}
	return b.String()
}
