//go:build unix

package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// checked is standard output, and the first error that a write had.
type checked struct {
	io.Writer
	err error
}

func (c *checked) Write(data []byte) (int, error) {
	n, err := c.Writer.Write(data)
	if c.err == nil {
		c.err = err
	}
	return n, err
}

// writeJSON writes a value as a line of JSON in which nothing controls a terminal: what is not printable
// is escaped.
func writeJSON(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, r := range string(data) {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	b.WriteByte('\n')
	_, err = io.WriteString(w, b.String())
	return err
}

// isTerminal reports whether f, a reader or a writer, is a terminal.
func isTerminal(f any) bool {
	file, ok := f.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// age writes how long ago a time is, in two units at most. Clocks differ, so it may be ahead.
func age(now, since time.Time) string {
	if since.IsZero() {
		return "-"
	}
	d := max(0, now.Sub(since))
	switch {
	case d >= 24*time.Hour:
		return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return d.Truncate(100 * time.Millisecond).String()
}

// brief returns the beginning of data as text on one line.
func brief(data []byte, n int) string {
	if !utf8.Valid(data) {
		return fmt.Sprintf("%.*q", n, data)
	}
	text := strconv.QuoteToGraphic(string(data))
	text = text[1 : len(text)-1]
	if runes := []rune(text); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return text
}

// confirm asks the user, unless yes says so already. Anything but y or yes ends the command.
func (a *app) confirm(ctx context.Context, yes bool, question string) error {
	if yes {
		return nil
	}
	fmt.Fprint(a.stderr, question, " [y/N] ")
	line, err := reading(ctx, func() (string, error) {
		line, _ := bufio.NewReader(a.stdin).ReadString('\n')
		return strings.ToLower(strings.TrimSpace(line)), nil
	})
	if err == nil && line != "y" && line != "yes" {
		return failf(exitFailure, "nothing was done (--yes does not ask)")
	}
	return err
}

// reading returns what read returns, or the cause of ctx if that ends first. Then read goes on until
// the process ends: nothing can end a read of standard input, or the opening of a FIFO.
func reading[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := read()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}
