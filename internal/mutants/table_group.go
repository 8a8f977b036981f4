package main

// groupMutants are about groups.
var groupMutants = []mutant{
	{
		name: "group-deletes-blindly",
		what: "A member that leaves deletes its znode without looking whose it is.",
		edits: []edit{{
			in:  "Member.remove",
			old: `known := m.own != nil && !m.own.HasFired()`,
			new: `known := true || m.own != nil && !m.own.HasFired()`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/group -run ^TestAMemberDoesNotDeleteTheZnodeOfAnotherOne$",
	},
	{
		name: "group-first-session-only",
		what: "A member is not there in the next session.",
		edits: []edit{{
			in:  "Member.run",
			old: `for !errors.Is(err, zkconn.ErrSessionOver) {`,
			new: `
				if m.written > 0 {
					return
				}
				for !errors.Is(err, zkconn.ErrSessionOver) {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/group -run ^TestAMemberIsBackInTheNextSession$",
	},
	{
		name: "group-forgets-news",
		what: "A watcher whose session ends while it reads does not yield what it has read.",
		edits: []edit{{
			in:  "View.Follow",
			old: `var names []string`,
			new: `
				var names []string
				v.news = len(v.members) == 0`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/group -run ^TestAGroupsWatcherYieldsWhatHasChangedBeforeItsSessionEnded$",
	},
	{
		name: "group-no-pause",
		what: "A watcher lists the group at each event.",
		edits: []edit{{
			in:  "group.await",
			old: `case <-time.After(Pause):`,
			new: `case <-time.After(0):`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/group -run ^TestAThousandMembersThatRestartTakeFewListings$",
	},
	{
		name: "group-null-data",
		what: "A member without data has a null value, which stops Curator's GroupMember.",
		edits: []edit{{
			in:  "group.Join",
			old: `data: append([]byte{}, data...), version: 1, // not nil: a null value stops Curator's GroupMember`,
			new: `data: data, version: 1,`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/group -run ^TestAGroupHasCuratorsLayout$",
	},
	{
		name: "group-reads-all",
		what: "A change costs a watcher a read of each member.",
		edits: []edit{{
			in:  "View.read",
			old: `if m := v.members[name]; m == nil || !m.read || m.w != nil && m.w.HasFired() {`,
			new: `
				if m := v.members[name]; m != nil && m.w != nil && !m.w.HasFired() {
					if _, _, err := s.Get(ctx, v.list.Path+"/"+name); err != nil {
						return err
					}
				}
				if m := v.members[name]; m == nil || !m.read || m.w != nil && m.w.HasFired() {`,
		}},
		test: "go test ./internal/costs -run ^TestCosts$/^Group:",
	},
	{
		name: "group-takes-anothers-znode",
		what: "A member takes a znode with its id for its own, whose session it is of.",
		edits: []edit{{
			in:  "Member.awaitOther",
			old: `case w.Stat.EphemeralOwner == s.ID():`,
			new: `case w.Stat.EphemeralOwner != 0:`,
		}, {
			in:  "Member.stay",
			old: `if w.Stat.EphemeralOwner != s.ID() {`,
			new: `if w.Stat.EphemeralOwner == 0 {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/group -run ^TestJoinWaitsForTheEndOfTheSessionBefore$",
	},
	{
		name: "group-uncounted",
		what: "A member that finds its znode after a lost reply may not count for its session.",
		edits: []edit{{
			in:  "Member.stay",
			old: `s.NoteThere(m.path)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/group -run ^TestAMemberWhoseReplyIsLostCountsForTheSession$",
	},
}
