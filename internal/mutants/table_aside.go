package main

// asideMutants are about places beyond the last number of a line, whose numbers begin anew.
var asideMutants = []mutant{
	{
		name: "aside-alone",
		what: "A place beyond the limit is granted if it is alone in the line.",
		edits: []edit{{
			in:  "line.entered",
			old: `p, err := l.newPlace(ctx, s, e, l.nameIn(o.Created(e.create)))`,
			new: `
				name := l.nameIn(o.Created(e.create))
				if m, ok := parsePlaceName(name, l.kinds); ok && e.mark != nil && o.Stat(e.mark).NumChildren == 1 {
					stat := o.Stat(e.mark)
					return &place{placeName: m, line: l, s: s, path: l.abs() + "/" + name, czxid: stat.Mzxid, lineCzxid: stat.Czxid, lineCount: 1, first: true}, nil
				}
				p, err := l.newPlace(ctx, s, e, name)`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestB87AFree",
	},
	{
		name: "aside-any-line",
		what: "Those aside take another line at the path for the one that they left.",
		edits: []edit{{
			in:  "beyondLimit.awaitReset",
			old: `case errors.Is(err, zk.ErrNoNode), err == nil && stat.Czxid != x.lineCzxid:`,
			new: `case errors.Is(err, zk.ErrNoNode):`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestB87ANewLine",
	},
	{
		name: "aside-deletes-any-leader",
		what: "The one who begins the numbers anew deletes somebody's own znode at the leader's path.",
		edits: []edit{{
			in:  "beyondLimit.deleteLine",
			old: `case err == nil && extra.EphemeralOwner == 0:`,
			new: `case err == nil && extra.EphemeralOwner == -1:`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run ^TestB87SomebodysZnodeAtTheLeadersPathKeepsTheNumbersFromBeginningAnew$",
	},
	{
		name: "aside-deletes-blindly",
		what: "Those aside delete whatever stands in the place of the line.",
		edits: []edit{{
			in:  "beyondLimit.deleteLine",
			old: `ops := []any{&zk.DeleteRequest{Path: l.abs(), Version: stat.Version}}`,
			new: `ops := []any{&zk.DeleteRequest{Path: l.abs(), Version: -1}}`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestB87ALineThatChanges",
	},
	{
		name: "aside-first-member",
		what: "Those aside wait for the first member of the line instead of the last.",
		edits: []edit{{
			in:  "beyondLimit.awaitLast",
			old: `w, err := x.s.Watch(ctx, x.line.abs()+"/"+slices.MaxFunc(ms, placeName.compare).name)`,
			new: `w, err := x.s.Watch(ctx, x.line.abs()+"/"+slices.MinFunc(ms, placeName.compare).name)`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestB87WaitingAside",
	},
	{
		name: "aside-guest",
		what: "Those aside delete a znode that holds data of somebody else.",
		edits: []edit{{
			in:  "beyondLimit.awaitReset",
			old: `if x.guest {`,
			new: `if false {`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestB87Somebodys",
	},
	{
		name: "last-number",
		what: "A place with a number beyond the limit is granted.",
		edits: []edit{{
			in:  "line.newPlace",
			old: `if ok && !l.c.isBeyondLimit(m.number) {`,
			new: `if ok {`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestB28TheLastNumber",
	},
}
