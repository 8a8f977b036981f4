package zkrecipes

// Servers returns the tests' shared server, for the examples.
func Servers() []string { return harness.shared }
