package main

// gateMutants are about the gate.
var gateMutants = []mutant{
	{
		name: "gate-believes-events",
		what: "Wait trusts the event that says that a Gate is open.",
		edits: []edit{{
			in:  "recipe.waitUntilOpen",
			old: `case !errors.Is(err, zk.ErrNoNode):`,
			new: `
					return nil
				case !errors.Is(err, zk.ErrNoNode):`,
		}},
		test: "go test ./internal/sim -run ^TestGate -seeds 2000",
	},
	{
		name: "gate-no-sync",
		what: "A Gate is read without a sync.",
		edits: []edit{{
			in: "isOpen",
			old: `
				if err := s.Sync(ctx, path); err != nil {
					return false, err
				}`,
		}},
		test: "go test ./internal/sim -run ^TestGate -seeds 100",
	},
	{
		name: "gate-spurious-event",
		what: "Any event opens a Gate.",
		edits: []edit{{
			in: "recipe.waitUntilOpen",
			old: `
				if !w.Deleted() {
					continue
				}`,
			new: `return nil`,
		}},
		test: "go test ./internal/sim -run ^TestGate -seeds 100",
	},
}
