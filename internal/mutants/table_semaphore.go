package main

// semaphoreMutants are about the semaphore.
var semaphoreMutants = []mutant{
	{
		name: "semaphore-acquire-contended",
		what: "Acquire fails if others are quicker each time, instead of standing in line.",
		edits: []edit{{
			in:  "Semaphore.enter",
			old: `if !wait || !errors.Is(err, errs.ErrLocked) && !errors.Is(err, zkconn.ErrContended) {`,
			new: `if !wait || !errors.Is(err, errs.ErrLocked) {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestAcquireStandsInLineIfOthersAreQuickerEachTime$",
	},
	{
		name: "semaphore-acquire-late-in-line",
		what: "Acquire tries as often as TryAcquire before it stands in line.",
		edits: []edit{{
			in:  "maxStale",
			old: `4`,
			new: `zkconn.MaxTries`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestAcquireStandsInLineIfOthersAreQuickerEachTime$",
	},
	{
		name: "semaphore-any-line",
		what: "A Semaphore takes free slots by the version of another line, which was deleted since.",
		edits: []edit{{
			in:  "Semaphore.confirm",
			old: `case line.Czxid != v.lineCzxid:`,
			new: `case line.Czxid == 0:`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestSemaphoreThatRemembersAnotherLineDoesNotOvertake$",
	},
	{
		name: "semaphore-beside-curators",
		what: "A Semaphore uses the path of Curator's if that has leases.",
		edits: []edit{{
			in:  "curatorsSemaphore",
			old: `[]string{"leases", "locks"}`,
			new: `[]string{"locks"}`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestSemaphoreRefusesThePathOfCuratorsSemaphore$",
	},
	{
		name: "semaphore-checks-first",
		what: "Slots are created behind the checks of their transaction: sent again, it does not tell that it was carried out.",
		edits: []edit{{
			in:  "slotPlace.take",
			old: `t := h.Session.Retry(nil, creates, ops)`,
			new: `t := h.Session.Retry(nil, ops, creates)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestSemaphoreFindsSlotsThatItTookAlthoughOthersCameSince$",
	},
	{
		name: "semaphore-does-not-follow",
		what: "A Semaphore that has agreed with the path once does not follow it.",
		edits: []edit{{
			in:  "Semaphore.agree",
			old: `if n != x.n && !x.agreed {`,
			new: `if n != x.n {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestSemaphoreThatHasAgreedFollowsAPathThatOthersMadeAnew$",
	},
	{
		name: "semaphore-fills-beyond-n",
		what: "Slots beyond n, which are still held after Resize, do not count.",
		edits: []edit{{
			in:  "view.free",
			old: `if len(taken)+k > v.n {`,
			new: `
				for i := range taken {
					if int(i) >= v.n {
						delete(taken, i)
					}
				}
				if len(taken)+k > v.n {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestResizeToFewerSlotsDrains$",
	},
	{
		name: "semaphore-foreign-child-waits",
		what: "A child of the line that is no place counts as a waiter.",
		edits: []edit{{
			in:  "Semaphore.slotsIfFree",
			old: `case len(placename.ParseAll(children, x.Line.Kinds)) > 0:`,
			new: `case len(children) > 0:`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestTryAcquireIgnoresAForeignChildOfTheLine$",
	},
	{
		name: "semaphore-forgets-on-cancel",
		what: "Slots that were taken as the caller left are not given back.",
		edits: []edit{{
			in:  "slotPlace.take",
			old: `if t.Unknown() {`,
			new: `if t.Unknown() && ctx.Err() == nil {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestSemaphoreCanceledAtAnyRequestLeavesNothing$",
	},
	{
		name: "semaphore-full-lists-the-line",
		what: "A try on a full semaphore lists the line of its waiters.",
		edits: []edit{{
			in:  "Semaphore.lookOnce",
			old: `if _, enough := v.lowest(k); !enough {`,
			new: `if _, enough := v.lowest(k); false && !enough {`,
		}},
		test: "go test ./internal/costs -run ^TestCosts$/^Semaphore:",
	},
	{
		name: "semaphore-gone-hides-a-loss",
		what: "A connection that is lost after one slot was gone counts as if all were.",
		edits: []edit{{
			in:  "slotPlace.release",
			old: `return err`,
			new: `return errors.Join(err, gone)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestSemaphoreGivesTheOtherSlotsBackAlthoughARequestFails$",
	},
	{
		name: "semaphore-guards-one-slot",
		what: "A Commit checks the first of several slots only.",
		edits: []edit{{
			in:  "Grant.Guard",
			old: `paths := g.Place().guarded()`,
			new: `paths := g.Place().guarded()[:1]`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestSemaphoreHolderOfADeletedSlotLosesItsLease$",
	},
	{
		name: "semaphore-half-given-back",
		what: "A release that finds a slot gone leaves the others.",
		edits: []edit{{
			in:  "slotPlace.release",
			old: `if !errors.Is(gone, zk.ErrNoNode) && !tooMany || len(ops) == 1 {`,
			new: `if !tooMany || len(ops) == 1 {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestSemaphoreHolderOfADeletedSlotLosesItsLease$",
	},
	{
		name: "semaphore-n-unwatched",
		what: "The first in line does not watch n.",
		edits: []edit{{
			in:  "Semaphore.watch",
			old: `return &view{n: n, path: path.Stat.Version, taken: SlotsAmong(slots.Children)}, []*zkconn.Watch{path, slots}, nil`,
			new: `return &view{n: n, path: path.Stat.Version, taken: SlotsAmong(slots.Children)}, []*zkconn.Watch{slots}, nil`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestResizeWakesTheFirstInLine$",
	},
	{
		name: "semaphore-overtakes",
		what: "A Semaphore takes free slots whoever has joined the line since it looked.",
		edits: []edit{{
			in:  "Semaphore.enterFreeIn",
			old: `t := &taking{view: v, over: v.line}`,
			new: `t := &taking{view: v, over: anyVersion}`,
		}, {
			in:  "Semaphore.confirm",
			old: `case line.NumChildren > 0:`,
			new: `case line.NumChildren < 0:`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestSemaphoreThatRemembersFreeSlotsDoesNotOvertake$",
	},
	{
		name: "semaphore-remembers-n",
		what: "A Semaphore takes slots by an n that Resize has changed since.",
		edits: []edit{{
			in:  "Semaphore.enterFreeIn",
			old: `o := t.take(ctx, &zk.CheckVersionRequest{Path: x.Held.Abs(), Version: v.path}, set)`,
			new: `o := t.take(ctx, &zk.CheckVersionRequest{Path: x.Held.Abs(), Version: -1}, set)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestSemaphoresFollowResize$",
	},
	{
		name: "semaphore-resized-path-reaped",
		what: "The servers delete the path of a semaphore that was resized.",
		edits: []edit{{
			in:  "Semaphore.resizeIn",
			old: `if _, err = layout.WriteSize(ctx, s.Session, x.Held.Abs(), n, stat.Version, keep...); err == nil {`,
			new: `if _, err = layout.WriteSize(ctx, s.Session, x.Held.Abs(), n, stat.Version, keep[:0]...); err == nil {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestResizeOutlastsTheIdleContainersOfTheSemaphore$",
	},
	{
		name: "semaphore-size-of-the-past",
		what: "ErrSize is returned by what a server shows that lags behind a Resize.",
		edits: []edit{{
			in:  "Semaphore.look",
			old: `synced := false`,
			new: `synced := true`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestSemaphoreBehindALaggingServerKnowsTheNewSize$",
	},
	{
		name: "semaphore-slot-nameless",
		what: "Slots are named after their numbers alone: a release that is sent again deletes the next holder's.",
		edits: []edit{{
			in:  "Semaphore.newSlots",
			old: `uuid := placename.NewUUID()`,
			new: `uuid := "00000000-0000-8000-8000-000000000000"`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestSemaphoreReleaseThatIsSentAgainLeavesTheNextHolder$",
	},
	{
		name: "semaphore-slots-before-line",
		what: "A Semaphore is read in the wrong order: its slots, and then the line.",
		edits: []edit{{
			in:  "Semaphore.readAll",
			old: `var rs [2]*zkconn.Reading`,
			new: `
				slots, _, err = s.Children(ctx, x.slotsPath())
				if err != nil && !errors.Is(err, zk.ErrNoNode) {
					return path, line, nil, err
				}
				var rs [2]*zkconn.Reading`,
		}, {
			in: "Semaphore.readAll",
			old: `
				}
				slots, _, err = s.Children(ctx, x.slotsPath())
				if err != nil && !errors.Is(err, zk.ErrNoNode) {
					return path, line, nil, err`,
		}},
		test: "go test ./internal/sim -run ^TestSemaphoreSimulation$ -seeds 400",
	},
	{
		name: "semaphore-small-first",
		what: "A caller that waits for more slots than are free lets others take them.",
		edits: []edit{{
			in: "Semaphore.lookOnce",
			old: `
				if names, err = x.slotsIfFree(ctx, s); err != nil {
					return nil, err
				}
				v.taken = SlotsAmong(names)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestSemaphoreLargeRequestIsNotOvertaken$",
	},
	{
		name: "semaphore-try-contended",
		what: "TryAcquire returns an error of its own if others are quicker each time.",
		edits: []edit{{
			in: "semaphore.Semaphore.Acquire",
			old: `
				if !wait && errors.Is(err, zkconn.ErrContended) {
					err = errs.ErrLocked
				}`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestTryAcquireReturnsErrLockedIfOthersAreQuickerEachTime$",
	},
	{
		name: "semaphore-watches-one-slot",
		what: "A holder watches the first of several slots only.",
		edits: []edit{{
			in:  "Grant.watchPlace",
			old: `for _, path := range p.Paths() {`,
			new: `for _, path := range p.Paths()[:1] {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestSemaphoreHolderOfADeletedSlotLosesItsLease$",
	},
	{
		name: "crowd-overtakes",
		what: "A caller that takes slots in a crowd keeps them although somebody waited.",
		edits: []edit{{
			in: "Semaphore.confirm",
			old: `case line.NumChildren > 0:
					return errStale // the next look tells whether somebody waits`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestCrowdDoesNotOvertake$",
	},
	{
		name: "crowd-any-line",
		what: "Slots that were taken in a crowd are kept although the path was made anew.",
		edits: []edit{{
			in:  "Semaphore.confirm",
			old: `case line.Czxid != v.lineCzxid:`,
			new: `case line.Czxid == 0:`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestCrowdKeepsNoSlotOfAPathThatWasMadeAnew$",
	},
	{
		name: "crowd-forgets-the-others",
		what: "A caller in a crowd does not remember the slots that it has listed.",
		edits: []edit{{
			in:  "Semaphore.confirm",
			old: `v.taken = taken`,
			new: `_ = taken`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestCrowdedSemaphoreKnowsTheSlotsOfOthers$",
	},
	{
		name: "crowd-all-keep",
		what: "Everybody in a crowd keeps a slot.",
		edits: []edit{{
			in:  "Semaphore.confirmFirst",
			old: `case rival.Czxid < t.Czxid:`,
			new: `case rival.Czxid < 0:`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestFirstOfACrowdKeepsTheSlot$",
	},
	{
		name: "crowd-nobody-keeps",
		what: "Nobody in a crowd keeps a slot that two have taken.",
		edits: []edit{{
			in:  "Semaphore.confirmFirst",
			old: `case rival.Czxid < t.Czxid:`,
			new: `case rival.Czxid > 0:`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestOneOfACrowdKeepsTheSlotThatBothFindTaken$",
	},
	{
		name: "crowd-fails-when-deleted",
		what: "A caller in a crowd fails if the slots are deleted before it has listed them.",
		edits: []edit{{
			in:  "Semaphore.confirmFirst",
			old: `return nil, errSlotsLost`,
			new: `return nil, err`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestCrowdGoesOnWhenItsSlotsAreDeleted$",
	},
	{
		name: "crowd-keeps-what-it-lost",
		what: "A caller in a crowd keeps slots although the reply was lost that tells whether somebody waited.",
		edits: []edit{{
			in:  "Semaphore.confirmLost",
			old: `if t.over == anyVersion {`,
			new: `if false {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestSemaphoreDoesNotOvertakeByALostRequest$",
	},
	{
		name: "crowd-beyond-n",
		what: "Slots are taken in a crowd while some beyond n are held.",
		edits: []edit{{
			in:  "view.allowsCrowd",
			old: `if int(i) >= v.n {`,
			new: `if false && int(i) >= v.n {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestCrowdTakesNoMoreThanNWhileSlotsBeyondItAreHeld$",
	},
	{
		name: "crowd-in-a-shared-line",
		what: "Slots are taken in a crowd although the line has other children than places.",
		edits: []edit{{
			in:  "view.allowsCrowd",
			old: `return v.empty`,
			new: `return true`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestTryAcquireReturnsErrLockedIfOthersAreQuickerEachTime$",
	},
	{
		name: "crowd-lasts-for-ever",
		what: "A Semaphore that has met a crowd expects one for ever.",
		edits: []edit{{
			in:  "Semaphore.isCrowded",
			old: `return time.Since(x.crowd) < CrowdLasts`,
			new: `return !x.crowd.IsZero()`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestSemaphoreTakesTheLowestSlotAgainAfterACrowd$",
	},
	{
		name: "crowd-is-not-noticed",
		what: "A Semaphore does not notice a crowd.",
		edits: []edit{{
			in:  "Semaphore.whyNotTaken",
			old: `x.NoteCrowd()`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestCrowdOnAWideSemaphoreIsNeverTurnedAway$",
	},
	{
		name: "crowd-wants-the-lowest",
		what: "Everybody in a crowd takes the lowest slots.",
		edits: []edit{{
			in:  "Semaphore.enterFreeIn",
			old: `v.free(k, rand.IntN(v.n))`,
			new: `v.free(k, 0*rand.IntN(v.n))`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestCrowdOnAWideSemaphoreIsNeverTurnedAway$",
	},
	{
		name: "crowd-leaves-slots",
		what: "Slots that a caller in a crowd may not keep are left behind.",
		edits: []edit{{
			in:  "Semaphore.enterFreeIn",
			old: `t.Abandon()`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestFirstOfACrowdKeepsTheSlot$",
	},
	{
		name: "crowd-slots-in-any-order",
		what: "A caller in a crowd gets its slots in any order.",
		edits: []edit{{
			in:  "view.free",
			old: `slices.Sort(numbers)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/semaphore -run ^TestSlotsOfACrowdAreInOrder$",
	},
}
