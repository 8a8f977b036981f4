// Package assert says whether those numbered invariants of packages line and hold are checked that are
// cheap to check: where tests run, the simulation above all.
package assert

// Failed is called with an invariant that does not hold. Tests set it before they use anything; nil:
// nothing is checked.
var Failed func(invariant string)

// SimulatedTime says that time passes only while nothing runs, so that those invariants are checked,
// too, which a pause of the process would break. Tests set it with Failed.
var SimulatedTime bool
