// Package assert checks those numbered invariants of packages line and hold that are cheap to check,
// where tests run, the simulation above all. What a production program pays is a comparison with nil.
package assert

// Failed is called with an invariant that does not hold. Tests set it before they use anything; nil:
// nothing is checked.
var Failed func(invariant string)

// SimulatedTime says that time passes only while nothing runs. Tests set it with Failed.
var SimulatedTime bool

// Holds checks an invariant.
func Holds(invariant string, holds func() bool) {
	if Failed != nil && !holds() {
		Failed(invariant)
	}
}

// HoldsNow is like Holds for an invariant that a pause of the process would break.
func HoldsNow(invariant string, holds func() bool) {
	if SimulatedTime {
		Holds(invariant, holds)
	}
}
