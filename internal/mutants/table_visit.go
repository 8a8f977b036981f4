package main

// visitMutants are about the double barrier.
var visitMutants = []mutant{
	{
		name: "contenders-older-ready",
		what: "Contenders of a double barrier takes a ready that an earlier use has left for the members' own.",
		edits: []edit{{
			in:  "look.Double",
			old: `cs[i].Held, cs[i].Token = cs[i].Token != 0 && cs[i].Token < since, 0`,
			new: `cs[i].Held, cs[i].Token = cs[i].Token != 0 && since != 0, 0`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestMembersOfADoubleBarrier",
	},
	{
		name: "visit-any-ready",
		what: "A member of a DoubleBarrier enters by a ready for another n.",
		edits: []edit{{
			in:  "DoubleBarrier.readyFor",
			old: `if n, err := strconv.Atoi(size[len("of"):]); err == nil && n != d.n {`,
			new: `if n, err := strconv.Atoi(size[len("of"):]); err == nil && n < 0 {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run TestMemberOfADoubleBarrier",
	},
	{
		name: "visit-blind-to-kazoo",
		what: "kazoo's members of a DoubleBarrier are not counted.",
		edits: []edit{{
			in:  "DoubleBarrier.Members",
			old: `if _, ok := placename.Parse(name, MemberKinds); ok || placename.IsUUID(name) || isHexUUID(name) {`,
			new: `if _, ok := placename.Parse(name, MemberKinds); ok || placename.IsUUID(name) || false {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run ^TestMembersOfOther",
	},
	{
		name: "visit-clears-unchecked",
		what: "The last member to leave deletes the znode ready without checking for new arrivals.",
		edits: []edit{{
			in:  "Visit.clear",
			old: `nobodyCame := &zk.CheckVersionRequest{Path: v.D.Line.Abs(), Version: version}`,
			new: `nobodyCame := &zk.CheckVersionRequest{Path: v.D.Line.Abs(), Version: -1}`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run ^TestLastToLeaveKeeps",
	},
	{
		name: "visit-counts-other-sizes",
		what: "A member of a DoubleBarrier that waits for another n is counted.",
		edits: []edit{{
			in:  "DoubleBarrier.agreeing",
			old: `if size := memberSize(name); size == 0 || size == d.n {`,
			new: `if size := memberSize(name); size >= 0 {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run TestMembersOfADouble",
	},
	{
		name: "visit-counts-ready",
		what: "The znode ready is counted as a member of a DoubleBarrier.",
		edits: []edit{{
			in:  "DoubleBarrier.open",
			old: `if n, err := d.agreeing(ms, path); n < d.n {`,
			new: `if n, err := d.agreeing(ms, path); n < d.n && !(older && n+1 == d.n) {`,
		}},
		test: "go test ./internal/sim -run ^TestDouble -seeds 20",
	},
	{
		name: "visit-keeps-own",
		what: "A second Leave does not wait until its own znode is deleted.",
		edits: []edit{{
			in: "Visit.nextToLeave",
			old: `
				case v.removed != nil: // by an earlier Leave, or about to be
					if err := v.remove(ctx, p); err != nil {
						return nil, err
					}`,
			new: `case v.removed != nil: // by an earlier Leave, or about to be`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run TestASecondLeave",
	},
	{
		name: "visit-old-ready",
		what: "A DoubleBarrier trusts a znode ready that is older than the member.",
		edits: []edit{{
			in:  "DoubleBarrier.wait",
			old: `if w.Absent || w.Stat.Czxid < p.Czxid {`,
			new: `if w.Absent {`,
		}, {
			in: "DoubleBarrier.readyFor",
			old: `
				case stat.Czxid < p.Czxid:
					return 0, true, nil`,
		}},
		test: "go test ./internal/sim -run ^TestDouble -seeds 20",
	},
	{
		name: "visit-opens-unchecked",
		what: "A DoubleBarrier is opened without checking for changes since the listing.",
		edits: []edit{{
			in:  "DoubleBarrier.open",
			old: `nobodyCame := &zk.SetDataRequest{Path: d.Line.Abs(), Data: layout.Record(d.Line.Recipe, p.Bears.Seal, ""), Version: path.Version}`,
			new: `nobodyCame := &zk.SetDataRequest{Path: d.Line.Abs(), Data: layout.Record(d.Line.Recipe, p.Bears.Seal, ""), Version: -1}`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run ^TestMembersThatGo",
	},
	{
		name: "visit-waits-for-all",
		what: "Leave waits for members that came for a later opening.",
		edits: []edit{{
			in:  "Visit.older",
			old: `case err != nil || w.Stat.Czxid > v.OpenedAt:`,
			new: `case err != nil:`,
		}},
		test: "go test ./internal/sim -run ^TestDouble -seeds 200",
	},
	{
		name: "visit-waits-for-latecomers",
		what: "Leave waits for members that have come since it first listed them.",
		edits: []edit{{
			in:  "Visit.awaited",
			old: `return name != own && !v.others[name] })`,
			new: `return false })`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run ^TestLeaveDoesNotWaitForMembersThatHave",
	},
	{
		name: "visit-believes-in-its-opening",
		what: "Leave waits for members though the servers have lost the opening.",
		edits: []edit{{
			in:  "Visit.noteOthers",
			old: `if path.Pzxid < v.OpenedAt {`,
			new: `if path.Pzxid < 0 {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run ^TestLeaveDoesNotWaitForMembersThatHave",
	},
}
