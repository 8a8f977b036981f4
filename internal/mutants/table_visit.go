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
			old: `nobodyCame := &zk.CheckVersionRequest{Path: v.D.Abs(), Version: version}`,
			new: `nobodyCame := &zk.CheckVersionRequest{Path: v.D.Abs(), Version: min(version, -1)}`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run ^TestLastToLeaveKeeps",
	},
	{
		name: "visit-opens-unchecked",
		what: "A DoubleBarrier is opened without checking for changes since the listing.",
		edits: []edit{{
			in:  "DoubleBarrier.open",
			old: `nobodyCame := d.mark(p, version)`,
			new: `nobodyCame := d.mark(p, min(version, -1))`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run ^TestMembersThatGo",
	},
}
