package main

// asideMutants are about places beyond the last number of a line, whose numbers begin anew.
var asideMutants = []mutant{
	{
		name: "aside-alone",
		what: "A place beyond the limit is granted if it is alone in the line.",
		edits: []edit{{
			in:  "Line.Entered",
			old: `p, err := l.newPlace(ctx, s, e, o.Created(e.Create)[len(l.Abs())+1:], stat.Czxid)`,
			new: `
				name := o.Created(e.Create)[len(l.Abs())+1:]
				if m, ok := placename.Parse(name, l.Kinds); ok && stat.NumChildren == 1 {
					return &Place{Parts: m, Line: l, Session: s, Path: l.Abs() + "/" + name, Czxid: stat.Mzxid, LineCzxid: stat.Czxid, LineCount: 1, First: true}, nil
				}
				p, err := l.newPlace(ctx, s, e, name, stat.Czxid)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run TestAFree",
	},
	{
		name: "aside-any-line",
		what: "Those aside take another line at the path for the one that they left.",
		edits: []edit{{
			in:  "Line.rollOver",
			old: `case errors.Is(err, zk.ErrNoNode), err == nil && stat.Czxid != x.LineCzxid:`,
			new: `case errors.Is(err, zk.ErrNoNode):`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run TestANewLine",
	},
	{
		name: "aside-deletes-any-leader",
		what: "The one who begins the numbers anew deletes somebody's own znode at the leader's path.",
		edits: []edit{{
			in:  "exhausted.deleteLine",
			old: `case err == nil && extra.EphemeralOwner == 0:`,
			new: `case err == nil && extra.EphemeralOwner == -1:`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/election -run ^TestSomebodysZnodeAtTheLeadersPathKeepsTheNumbersFromBeginningAnew$",
	},
	{
		name: "aside-deletes-blindly",
		what: "Those aside delete whatever stands in the place of the line.",
		edits: []edit{{
			in:  "exhausted.deleteLine",
			old: `ops := []any{&zk.DeleteRequest{Path: l.Abs(), Version: stat.Version}}`,
			new: `ops := []any{&zk.DeleteRequest{Path: l.Abs(), Version: -1}}`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run TestALineThatChanges",
	},
	{
		name: "aside-first-member",
		what: "Those aside wait for the first member of the line instead of the last.",
		edits: []edit{{
			in:  "awaitLast",
			old: `w, err := x.Session.Watch(ctx, x.Line.Abs()+"/"+slices.MaxFunc(ms, placename.Parts.Compare).Name)`,
			new: `w, err := x.Session.Watch(ctx, x.Line.Abs()+"/"+slices.MinFunc(ms, placename.Parts.Compare).Name)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run TestWaitingAside",
	},
	{
		name: "last-number",
		what: "A place with a number beyond the limit is granted.",
		edits: []edit{{
			in:  "Line.newPlace",
			old: `case IsBeyondLimit(l.Client, m.Number):`,
			new: `case false:`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run TestTheLastSequenceNumber",
	},
}
