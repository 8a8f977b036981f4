//go:build unix

package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// from is the value of a flag that must not be below the least one: a duration or a number.
type from[T cmp.Ordered] struct {
	least T
	value *T
	parse func(string) (T, error)
	name  string // of the type
}

func durationFrom(least time.Duration, value *time.Duration) *from[time.Duration] {
	return &from[time.Duration]{least, value, time.ParseDuration, "duration"}
}

func numberFrom(least int, value *int) *from[int] {
	return &from[int]{least, value, strconv.Atoi, "int"}
}

func (f *from[T]) Type() string { return f.name }

// String returns the default, which help does not show if it is 0.
func (f *from[T]) String() string {
	if f.value == nil || *f.value == *new(T) {
		return ""
	}
	return fmt.Sprint(*f.value)
}

func (f *from[T]) Set(text string) error {
	v, err := f.parse(text)
	if err != nil {
		return err
	}
	if v < f.least {
		return fmt.Errorf("must be at least %v", f.least)
	}
	*f.value = v
	return nil
}

// waitTime is the value of -w: a duration, or a number of seconds, as flock takes it.
func waitTime(value *time.Duration) *from[time.Duration] {
	return &from[time.Duration]{time.Millisecond, value, parseSeconds, "duration"}
}

func parseSeconds(text string) (time.Duration, error) {
	for _, t := range []string{text, text + "s"} {
		if d, err := time.ParseDuration(t); err == nil {
			return d, nil
		}
	}
	return 0, errors.New("must be seconds, or a duration such as 1m30s")
}

// exitStatus is the value of a flag. The system keeps the lowest eight bits of one, so 256 would be a
// success.
func exitStatus(value *int) *from[int] { return &from[int]{0, value, parseStatus, "status"} }

func parseStatus(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil {
		return 0, errors.New("must be from 0 to 255")
	}
	return int(n), nil
}
