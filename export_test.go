package zkrecipes

import "github.com/zkrecipes/zkrecipes/internal/harness"

// Servers returns the tests' shared server, for the examples.
func Servers() []string { return harness.Servers() }
