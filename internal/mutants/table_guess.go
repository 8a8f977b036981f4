package main

// guessMutants are about a predecessor that is guessed instead of listed.
var guessMutants = []mutant{
	{
		name: "guess-any-kind",
		what: "A reader waits for the reader that it guessed.",
		edits: []edit{{
			in:  "Line.mayName",
			old: `return m.Kind != "" && m.Ours() && placename.IsUUID(m.UUID) && !l.Foreign(m.Kind) && l.Blocks(k, m.Kind)`,
			new: `return m.Kind != "" && m.Ours() && placename.IsUUID(m.UUID) && !l.Foreign(m.Kind)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run ^TestAReaderGuessesWritersOnly$",
	},
	{
		name: "guess-blind",
		what: "A guessed predecessor that does not exist has given the turn to the place.",
		edits: []edit{{
			in:  "Place.AwaitTurn",
			old: `p.Line.noteBrief(true)`,
			new: `break`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run ^TestAGuessThatHasLeftIsFoundOutByTheWatch$",
	},
	{
		name: "guess-counts-all-children",
		what: "Children that are no places make a line long.",
		edits: []edit{{
			in:  "Line.noteChildren",
			old: `l.note(func(s *LineState) { s.count, s.Others = n, n-places })`,
			new: `l.note(func(s *LineState) { s.count = n })`,
		}},
		test: "go test ./internal/costs -run ^TestCosts$/eight_znodes",
	},
	{
		name: "guess-goes-on",
		what: "A client goes on guessing where predecessors have left.",
		edits: []edit{{
			in:  "Line.tellsPredecessor",
			old: `return l.Blocks != nil && s.count-s.Others > long && !s.brief && s.Version == -1 && (k.Exclusive() || l.Blocks(k, s.tail))`,
			new: `return l.Blocks != nil && s.count-s.Others > long && s.Version == -1 && (k.Exclusive() || l.Blocks(k, s.tail))`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run ^TestAClientWhoseGuessHadLeftListsUntilItSeesItsPredecessor$",
	},
	{
		name: "guess-known-wrong",
		what: "A guess is watched although somebody has joined since the line was read.",
		edits: []edit{{
			in:  "Place.guess",
			old: `if !ok || p.Number != NextNumber(stat) {`,
			new: `if !ok {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run ^TestAGuessThatIsKnownToBeWrongIsNotWatched$",
	},
	{
		name: "guess-reads-too-late",
		what: "A join reads who joined last after it has written its own name.",
		edits: []edit{{
			in:  "Session.BeginBehindGet",
			old: `get, multi := nc.CallBoth(jute.OpGetData, readFrame(jute.OpGetData, path), jute.OpMulti, frame, func(_, multi *wire.Call) { ended(multi) })`,
			new: `
				multi := nc.CallThen(jute.OpMulti, frame, ended)
				get := nc.Call(jute.OpGetData, readFrame(jute.OpGetData, path))`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run ^TestJoinOfALongLineTakesTwoRoundTripsAndNoList$",
	},
	{
		name: "guess-without-a-rule",
		what: "A join of a long line asks which place waits for which, where the recipe has no such rule.",
		edits: []edit{{
			in:  "Line.tellsPredecessor",
			old: `return l.Blocks != nil && s.count-s.Others > long && !s.brief && s.Version == -1 && (k.Exclusive() || l.Blocks(k, s.tail))`,
			new: `return s.count-s.Others > long && !s.brief && s.Version == -1 && (k.Exclusive() || l.Blocks(k, s.tail))`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run ^TestDoubleBarrierOfMoreMembersThanAShortLineHas$",
	},
}
